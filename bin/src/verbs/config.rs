//! `config`: settings from flags, the environment, `cognilog.toml` in the store, and the user's own file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

/// The settings' file name, in the store directory and in the user's configuration folder.
const FILE: &str = "cognilog.toml";

/// Every key of the file with its meaning and an example; the example file and the check of keys are made from it.
const KEYS: [(&str, &str, &str, &str); 17] = [
    ("log", "wait_seconds", "10", "Seconds to wait for another writer before exit code 4."),
    ("import", "time_zone", "\"Asia/Shanghai\"", "The zone of times without one; UTC when it is not set."),
    ("import", "identity", "\"researcher\"", "The identity whose memory imported traces share."),
    ("import", "agent_type", "\"research\"", "The kind of agent of imported traces."),
    ("import", "owner", "\"team-a\"", "The owner of imported traces."),
    ("json_files", "folder", "\"/path/to/.trace\"", "Where `export --all --follow` keeps cognition_log.json files."),
    ("review", "pending_days", "30", "Days after which what waits for a person is pointed out."),
    ("hub", "sink", "\"http\"", "Where `commit` sends what was approved: \"directory\" or \"http\"."),
    ("hub", "folder", "\"/path/to/knowledge\"", "The folder of the sink \"directory\": a JSON file for each item."),
    ("hub", "url", "\"https://hub.example.com/api/knowledge\"", "Where the sink \"http\" posts each item."),
    ("hub", "header", "\"Authorization\"", "The header that carries the key."),
    ("hub", "header_variable", "\"KNOWHUB_AUTHORIZATION\"", "The environment variable with the header's whole value."),
    (
        "hub",
        "fields",
        "{ task = \"title\", scopes = \"\" }",
        "The hub's names of a record's fields; \"\" leaves one out.",
    ),
    ("hub", "timeout_seconds", "30", "Seconds for one item, from connecting to the end of the answer."),
    (
        "workflow",
        "language",
        "\"auto\"",
        "Of the prompts of `evaluate` and `extract`: \"zh\", \"en\", or that of the task.",
    ),
    ("workflow", "evaluation_prompt", "\"/path/to/evaluation.md\"", "A file with the template of `evaluate`'s prompt."),
    ("workflow", "extraction_prompt", "\"/path/to/extraction.md\"", "A file with the template of `extract`'s prompt."),
];

/// What `[workflow]` `language` may be.
const LANGUAGES: [&str; 3] = ["auto", "zh", "en"];

/// What `[hub]` `sink` may be.
const SINKS: [&str; 2] = ["directory", "http"];

/// What a hub's `fields` may name beside the fields of a record.
const IDS: [&str; 2] = ["extraction_id", "trace_id"];

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    log: LogSection,
    #[serde(default)]
    import: ImportSection,
    #[serde(default)]
    json_files: JsonFilesSection,
    #[serde(default)]
    review: ReviewSection,
    #[serde(default)]
    hub: HubSettings,
    #[serde(default)]
    workflow: WorkflowSettings,
}

/// The section `[workflow]`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WorkflowSettings {
    pub(crate) language: Option<String>,
    pub(crate) evaluation_prompt: Option<PathBuf>,
    pub(crate) extraction_prompt: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
struct ReviewSection {
    pending_days: Option<u32>,
}

/// The section `[hub]`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct HubSettings {
    pub(crate) sink: Option<String>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) url: Option<String>,
    pub(crate) header: Option<String>,
    pub(crate) header_variable: Option<String>,
    pub(crate) fields: Option<BTreeMap<String, String>>,
    pub(crate) timeout_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct LogSection {
    wait_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct ImportSection {
    time_zone: Option<String>,
    identity: Option<String>,
    agent_type: Option<String>,
    owner: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct JsonFilesSection {
    folder: Option<PathBuf>,
}

/// The settings that hold, each with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) wait: Duration,
    pub(crate) time_zone: Option<String>,
    pub(crate) identity: Option<String>,
    pub(crate) agent_type: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) pending_days: Option<u32>,
    pub(crate) hub: HubSettings,
    pub(crate) workflow: WorkflowSettings,
    pub(crate) origins: Vec<(&'static str, String, String)>,
}

impl Settings {
    /// Reads the files that are there. A flag wins over the environment, that over the store's file, that over the user's.
    pub(crate) fn load(store: Option<&Path>, wait: Option<Duration>) -> Result<Settings, Failure> {
        let mut settings = Settings {
            wait: Duration::from_secs(10),
            time_zone: None,
            identity: None,
            agent_type: None,
            owner: None,
            folder: None,
            pending_days: None,
            hub: HubSettings::default(),
            workflow: WorkflowSettings::default(),
            origins: Vec::new(),
        };
        let mut origins: Vec<(&'static str, String, String)> = KEYS
            .iter()
            .map(|(section, key, ..)| (leaked(section, key), "-".to_owned(), "default".to_owned()))
            .collect();
        origins[0].1 = "10".to_owned();
        origins[6].1 = "30".to_owned();
        origins[13].1 = "30".to_owned();
        origins[14].1 = "auto".to_owned();
        let users = user_folder().map(|folder| folder.join(FILE)).filter(|path| is_ours(path));
        for path in users.into_iter().chain(store.map(|store| store.join(FILE))) {
            let Some(file) = read(&path)? else { continue };
            let origin = path.display().to_string();
            let mut take = |index: usize, value: Option<String>| {
                if let Some(value) = value {
                    origins[index].1 = value;
                    origins[index].2.clone_from(&origin);
                }
            };
            take(0, file.log.wait_seconds.map(|seconds| seconds.to_string()));
            take(1, file.import.time_zone.clone());
            take(2, file.import.identity.clone());
            take(3, file.import.agent_type.clone());
            take(4, file.import.owner.clone());
            take(5, file.json_files.folder.as_ref().map(|folder| folder.display().to_string()));
            let (review, hub) = (file.review, file.hub);
            take(6, review.pending_days.map(|days| days.to_string()));
            take(7, hub.sink.clone());
            take(8, hub.folder.as_ref().map(|folder| folder.display().to_string()));
            take(9, hub.url.clone());
            take(10, hub.header.clone());
            take(11, hub.header_variable.clone());
            take(12, hub.fields.as_ref().map(|fields| serde_json::json!(fields).to_string()));
            take(13, hub.timeout_seconds.map(|seconds| seconds.to_string()));
            let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
            take(14, file.workflow.language.clone());
            take(15, path(&file.workflow.evaluation_prompt));
            take(16, path(&file.workflow.extraction_prompt));
            let before = std::mem::take(&mut settings.workflow);
            settings.workflow = WorkflowSettings {
                language: file.workflow.language.or(before.language),
                evaluation_prompt: file.workflow.evaluation_prompt.or(before.evaluation_prompt),
                extraction_prompt: file.workflow.extraction_prompt.or(before.extraction_prompt),
            };
            settings.pending_days = review.pending_days.or(settings.pending_days);
            let before = std::mem::take(&mut settings.hub);
            settings.hub = HubSettings {
                sink: hub.sink.or(before.sink),
                folder: hub.folder.or(before.folder),
                url: hub.url.or(before.url),
                header: hub.header.or(before.header),
                header_variable: hub.header_variable.or(before.header_variable),
                fields: hub.fields.or(before.fields),
                timeout_seconds: hub.timeout_seconds.or(before.timeout_seconds),
            };
            settings.wait = file.log.wait_seconds.map_or(settings.wait, Duration::from_secs);
            settings.time_zone = file.import.time_zone.or(settings.time_zone);
            settings.identity = file.import.identity.or(settings.identity);
            settings.agent_type = file.import.agent_type.or(settings.agent_type);
            settings.owner = file.import.owner.or(settings.owner);
            settings.folder = file.json_files.folder.or(settings.folder);
        }
        if let Some(wait) = wait {
            settings.wait = wait;
            origins[0].1 = format!("{}", wait.as_secs_f64());
            origins[0].2 = "--wait".to_owned();
        }
        settings.origins = origins;
        Ok(settings)
    }
}

fn leaked(section: &str, key: &str) -> &'static str {
    // The keys are a constant table: their joined names are made once a run.
    Box::leak(format!("{section}.{key}").into_boxed_str())
}

fn user_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?.join("cognilog"))
}

/// Whether the user's own file may be read. Under `sudo` the folder is often another user's: that is said and passed
/// over.
fn is_ours(path: &Path) -> bool {
    let denied =
        matches!(std::fs::File::open(path), Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied);
    if denied {
        note(&format!("{} may not be read: it is passed over", shown(path)));
    }
    !denied
}

fn read(path: &Path) -> Result<Option<File>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Failure::io("read", path, &error)),
    };
    let wrong = |message: String| Failure::new(2, "bad_configuration", format!("{}: {message}", path.display()));
    let table: toml::Table = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    for (section, value) in &table {
        let Some(keys) = value.as_table() else { return Err(wrong(format!("`{section}` is no section"))) };
        if !KEYS.iter().any(|(known, ..)| known == section) {
            let nearest = nearest(section, KEYS.iter().map(|(section, ..)| *section));
            return Err(wrong(format!("there is no section [{section}]; the nearest is [{nearest}]")));
        }
        for key in keys.keys() {
            if !KEYS.iter().any(|(known, known_key, ..)| known == section && known_key == key) {
                let keys = KEYS.iter().filter(|(known, ..)| known == section).map(|(_, key, ..)| *key);
                return Err(wrong(format!("[{section}] has no key `{key}`; the nearest is `{}`", nearest(key, keys))));
            }
        }
    }
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let known = || cognilog::RECORD_FIELDS.into_iter().chain(IDS);
    if let Some(field) =
        file.hub.fields.iter().flatten().map(|(field, _)| field).find(|field| !known().any(|known| known == *field))
    {
        return Err(wrong(format!(
            "[hub] fields: a record has no `{field}`; the nearest is `{}`",
            nearest(field, known())
        )));
    }
    if let Some(sink) = file.hub.sink.as_deref().filter(|sink| !SINKS.contains(sink)) {
        return Err(wrong(format!(
            "[hub] sink: there is no {sink:?}; the nearest is {:?}",
            nearest(sink, SINKS.into_iter())
        )));
    }
    if let Some(word) = file.workflow.language.as_deref().filter(|word| !LANGUAGES.contains(word)) {
        return Err(wrong(format!(
            "[workflow] language: there is no {word:?}; the nearest is {:?}",
            nearest(word, LANGUAGES.into_iter())
        )));
    }
    Ok(Some(file))
}

/// The name with the fewest edits from `wanted`.
fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> &'n str {
    names.min_by_key(|name| edits(wanted, name)).unwrap_or_default()
}

/// Edits between two words (Levenshtein 1966), by rows.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, character) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

pub(crate) fn example(output: &mut Output) -> Result<u8, Failure> {
    output.raw(&example_file())?;
    Ok(0)
}

pub(crate) fn run(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let rows = place.settings.origins.iter().map(|(key, value, origin)| (*key, value.clone(), origin.clone()));
    let rows = rows.chain(model_variables());
    if output.json {
        let rows: Vec<_> = rows
            .map(|(key, value, origin)| serde_json::json!({ "key": key, "value": value, "origin": origin }))
            .collect();
        output.array(&rows)?;
        return Ok(0);
    }
    for (key, value, origin) in rows {
        output.line(&format!("{key:<24} {:<24} {}", printable(&value, 80), printable(&origin, 4_096)))?;
    }
    Ok(0)
}

/// What the environment alone says: which models to ask, and where.
#[cfg(feature = "model")]
fn model_variables() -> impl Iterator<Item = (&'static str, String, String)> {
    use cognilog::model::openai::OpenAiSettings;
    OpenAiSettings::shown(|name| std::env::var(name).ok()).into_iter().map(|(name, value)| match value {
        Some(value) => (name, value, "environment".to_owned()),
        None => (name, "-".to_owned(), "default".to_owned()),
    })
}

#[cfg(not(feature = "model"))]
fn model_variables() -> impl Iterator<Item = (&'static str, String, String)> {
    std::iter::empty()
}

fn example_file() -> String {
    let mut text =
        "# Settings of cognilog: put this file into the store directory, or into ~/.config/cognilog.\n".to_owned();
    let mut last = "";
    for (section, key, value, meaning) in KEYS {
        if section != last {
            text.push_str(&format!("\n[{section}]\n"));
            last = section;
        }
        text.push_str(&format!("# {meaning}\n{key} = {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_read_and_has_every_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        std::fs::write(&path, example_file()).expect("written");
        let file = read(&path).expect("valid").expect("there");
        assert_eq!(file.log.wait_seconds, Some(10));
        assert!(file.import.time_zone.is_some() && file.import.identity.is_some() && file.import.agent_type.is_some());
        assert!(file.import.owner.is_some() && file.json_files.folder.is_some());
        assert_eq!((file.review.pending_days, file.hub.timeout_seconds), (Some(30), Some(30)));
        assert!(file.hub.sink.is_some() && file.hub.folder.is_some() && file.hub.url.is_some());
        assert!(file.hub.header.is_some() && file.hub.header_variable.is_some() && file.hub.fields.is_some());
    }

    #[test]
    fn an_unknown_key_is_an_error_with_the_nearest_name() {
        let check = |text: &str, expect: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(FILE);
            std::fs::write(&path, text).expect("written");
            let error = format!("{:?}", read(&path).expect_err(text));
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("[log]\nwait_second = 3\n", "`wait_seconds`");
        check("[imports]\nowner = \"x\"\n", "[import]");
        check("[hub]\nsink = \"htp\"\n", "no \\\"htp\\\"; the nearest is \\\"http");
        check("[hub]\nfields = { contents = \"x\" }\n", "`content`");
        check("[hub]\nurls = \"x\"\n", "`url`");
        check("[review]\npending_day = 3\n", "`pending_days`");
        check("owner = \"x\"\n", "no section");
        check("[log\n", "bad_configuration");
        check("[log]\nwait_seconds = \"x\"\n", "bad_configuration");
    }
}
