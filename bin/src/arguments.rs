//! The command line: verbs and their flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The flight recorder of an LLM agent's cognition.
///
/// One append-only log holds what an agent asked, what it was told, what that was worth and what it learned; everything
/// else is a fold of it. stdout is data, stderr is everything else. Exit codes: 0 fine, 1 failed, 2 usage, 3 data
/// damaged, 4 busy or conflict (try again).
#[derive(Debug, Parser)]
#[command(name = "cognilog", version)]
pub(crate) struct Arguments {
    /// The store; without it $COGNILOG_STORE, else the nearest .cognilog folder upward
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Print JSON: one array from verbs that list, one object a line from verbs that stream
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long to wait for another writer, such as 10s, 500ms or 0
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wait: Option<std::time::Duration>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make an empty store
    Init,
    /// Import cognition_log.json files, a whole .trace tree (nothing is written into it), or an archive (.ndjson)
    Import(ImportArguments),
    /// Append events, one JSON object a line on stdin; a receipt line for each once it is on disk
    Append(AppendArguments),
    /// Print a trace's cognition_log.json, now or as it was
    Export(ExportArguments),
    /// List the traces
    Traces,
    /// Show a trace (or trace:ID) or an extraction (ext:ID)
    Show {
        /// A trace id, trace:ID or ext:ID
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List what waits: evaluations, extractions, reflections
    Pending(PendingArguments),
    /// Review what waits, in the terminal: list, detail, groups, undo
    Review {
        /// One trace only
        #[arg(long)]
        trace: Option<String>,
        #[command(flatten)]
        reviewer: ReviewerArguments,
    },
    /// Approve extractions as they stand; the next commit takes them
    Approve(DecideArguments),
    /// Edit an extraction and approve it: by flags, by a form, or in $EDITOR without either
    Edit(Box<EditArguments>),
    /// Discard extractions: they become no knowledge
    Discard(DecideArguments),
    /// Take decisions back: the extractions are pending again
    Withdraw(DecideArguments),
    /// Undo your last decision, or all of them that were made together
    Undo(ReviewerArguments),
    /// Review and commit one trace by the numbered menu: 8 review, 9 commit
    Interactive {
        /// The trace
        #[arg(value_name = "TRACE")]
        trace: String,
        #[command(flatten)]
        reviewer: ReviewerArguments,
        /// Commit into this folder instead of the hub of the settings
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Send what was approved to the hub: each item once, each with what became of it
    Commit(CommitArguments),
    /// Step through a trace: each event with what it changed
    Replay(ReplayArguments),
    /// Print the log, event by event
    Log(LogArguments),
    /// Ask a model what the sources were worth that nobody judged yet
    Evaluate(AskArguments),
    /// Ask a model what was learned in a trace; what it says waits for review
    Extract(AskArguments),
    /// Say what would be taken of a model's reply: the accepted value on stdout, what was repaired and dropped on stderr
    ParseReply(ParseReplyArguments),
    /// Try stored replies again from which nothing could be taken, and record what is accepted now
    Reparse(ReparseArguments),
    /// Count events and bytes by kind and trace
    Stats,
    /// Compare files with their exports; exit 1 where one differs
    Compare {
        /// A folder with cognition_log.json files
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Check everything that is stored: positions, chain, checksums, digests, rows
    Verify {
        /// A head that was kept elsewhere, as `cognilog head` prints it
        #[arg(long, value_name = "HEAD")]
        expect: Option<String>,
    },
    /// Look for everything that may be wrong, and say what to do about it; exit 1 on a problem, 3 on damage
    Doctor,
    /// Copy everything into a new folder, checked on the way, while others read and write
    Backup {
        /// The folder to make
        #[arg(value_name = "DIR")]
        to: PathBuf,
        /// Copy what stands before the first damage, instead of refusing; exit 3 if there was any
        #[arg(long)]
        until_damage: bool,
    },
    /// Make a store of a backup; it is of a new epoch, and positions of before are refused
    Restore {
        /// The backup
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// The folder to make
        #[arg(long, value_name = "NEW")]
        to: PathBuf,
        /// Take what stands before the first damage, instead of refusing; exit 3 if there was any
        #[arg(long)]
        until_damage: bool,
    },
    /// Print the head: epoch, last position and the hash of the chain
    Head,
    /// Tell how the store fares; exit 1 when it is not well
    Status,
    /// Make projections again from the log
    Rebuild {
        /// Projections; all without any
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Print each setting and where it comes from
    Config {
        /// Print an example cognilog.toml with every key
        #[arg(long)]
        example: bool,
    },
    /// Go through what works, step by step, on a fresh store
    Demo {
        /// Where to make the store; a temporary folder without it
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// Files or folders
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// What to do with a file that went another way than the log
    #[arg(long, value_enum, default_value = "refuse")]
    pub(crate) on_fork: ForkChoice,
    /// The zone of times without one, such as +08:00 or Asia/Shanghai; UTC without it
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// A file of messages of the one trace that is imported, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) messages: Option<PathBuf>,
    /// The identity whose memory the traces share
    #[arg(long)]
    pub(crate) identity: Option<String>,
    /// The kind of agent of the traces
    #[arg(long)]
    pub(crate) agent_type: Option<String>,
    /// The owner of the traces
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Go on: import what changes in the folders until the program is stopped
    #[arg(long, conflicts_with = "messages")]
    pub(crate) watch: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ForkChoice {
    /// Import nothing of it and say where it differs
    Refuse,
    /// Append its events from the fork on
    Append,
    /// Import it as a trace of its own
    NewTrace,
}

#[derive(Debug, Args)]
pub(crate) struct AppendArguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
    /// Record all lines together or none, and remember this key: a retry adds nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Append only if the trace's last event is at this position (0: it has none); records all lines together
    #[arg(long, value_name = "[EPOCH.]POSITION")]
    pub(crate) expect_position: Option<PositionOfEpoch>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The trace
    #[arg(value_name = "TRACE", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) trace: Option<String>,
    /// The file to write, whole or not at all; stdout without it
    #[arg(short, long, value_name = "FILE", conflicts_with = "all")]
    pub(crate) output: Option<PathBuf>,
    /// As of the last position before the first query or message with a higher sequence
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with_all = ["at_position", "all"])]
    pub(crate) at_sequence: Option<i64>,
    /// As of this position of the log
    #[arg(long, value_name = "[EPOCH.]P", conflicts_with = "all")]
    pub(crate) at_position: Option<PositionOfEpoch>,
    /// For whom
    #[arg(long, value_enum, default_value = "native")]
    pub(crate) profile: ProfileChoice,
    /// Write every trace to DIR/{trace}/cognition_log.json; without DIR into the folder of the settings
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub(crate) all: Option<Option<PathBuf>>,
    /// Go on: keep the files of --all up to date, as the Python readers expect them, until the program is stopped
    #[arg(long, requires = "all")]
    pub(crate) follow: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileChoice {
    /// As it is in the log
    Native,
    /// For the old Python readers: withdrawals as discards, keys of ours under "cognilog"
    Python,
}

#[derive(Debug, Args)]
pub(crate) struct PendingArguments {
    /// What
    #[arg(value_enum)]
    pub(crate) what: PendingChoice,
    /// One trace only
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// List all of them; without it at most 100 are shown to people (JSON is always whole)
    #[arg(long)]
    pub(crate) all: bool,
    /// Which rule says that a query is pending
    #[arg(long, value_enum, default_value = "per-source")]
    pub(crate) rule: RuleChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PendingChoice {
    /// Queries with sources that nobody judged
    Evaluations,
    /// Extractions that wait for a person
    Extractions,
    /// Traces with more than their reflections have read
    Reflections,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RuleChoice {
    /// Any source without an assessment
    PerSource,
    /// No evaluation event, as the documents have it
    Document,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewerArguments {
    /// Who decides; without it $COGNILOG_REVIEWER, git's user.email, $USER
    #[arg(long, value_name = "NAME")]
    pub(crate) reviewer: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DecideArguments {
    /// Extractions
    #[arg(required = true, value_name = "EXT")]
    pub(crate) extractions: Vec<String>,
    /// The trace, where several have an extraction of the name
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// Decide on everything that waits and says nearly the same, too
    #[arg(long)]
    pub(crate) group: bool,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only if it is at this version, the one that you looked at
    #[arg(long, value_name = "VERSION", conflicts_with = "group")]
    pub(crate) seen: Option<u64>,
    #[command(flatten)]
    pub(crate) reviewer: ReviewerArguments,
}

#[derive(Debug, Args)]
pub(crate) struct EditArguments {
    /// The extraction
    #[arg(value_name = "EXT")]
    pub(crate) extraction: String,
    /// The trace, where several have an extraction of the name
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// The new text
    #[arg(long, value_name = "TEXT")]
    pub(crate) content: Option<String>,
    /// The task it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// experience, tool, strategy, case; parted by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) types: Option<String>,
    /// A number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) score: Option<String>,
    /// A JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) tags: Option<String>,
    /// Who may read it; parted by commas, or a JSON list
    #[arg(long, value_name = "LIST")]
    pub(crate) scopes: Option<String>,
    /// The resources it speaks of; parted by commas, or a JSON list
    #[arg(long, value_name = "LIST")]
    pub(crate) resource_ids: Option<String>,
    /// Whose it is
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,
    /// A JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) source: Option<String>,
    /// Print the form with every field, and decide nothing
    #[arg(long, conflicts_with = "form")]
    pub(crate) print_form: bool,
    /// Take a form that was filled in; - reads it from stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) form: Option<PathBuf>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only if it is at this version, the one that you looked at
    #[arg(long, value_name = "VERSION")]
    pub(crate) seen: Option<u64>,
    #[command(flatten)]
    pub(crate) reviewer: ReviewerArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CommitArguments {
    /// Extractions; all that are approved without any
    #[arg(value_name = "EXT")]
    pub(crate) extractions: Vec<String>,
    /// One trace only
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// Show what would go, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Send without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Send those again of which nobody knows whether the hub has them
    #[arg(long)]
    pub(crate) retry_unknown: bool,
    /// Commit into this folder, a JSON file for each item, instead of the hub of the settings
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AskArguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
    /// Ask also where the trace has no messages
    #[arg(long)]
    pub(crate) blind: bool,
    /// The model to ask, instead of $COGNILOG_MODEL
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Seconds until there is an outcome
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) deadline: Option<u64>,
    /// Bytes of the conversation that is sent before the prompt; the oldest messages are left out
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 10)]
    pub(crate) conversation_bytes: usize,
    /// Tokens of the reply at the most
    #[arg(long, value_name = "TOKENS")]
    pub(crate) tokens_max: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
    /// Stop before the first query or message with a higher sequence
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) until: Option<i64>,
    /// One event at a time: Enter or n forward, b back, a number jumps, s shows the state, q ends
    #[arg(long, conflicts_with = "json")]
    pub(crate) step: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// One object a line with everything of each event; as --json
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Go on with what is appended
    #[arg(long)]
    pub(crate) follow: bool,
    /// One trace only
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// One kind only
    #[arg(long = "type", value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// From this position on
    #[arg(long, value_name = "[EPOCH.]P", default_value = "1")]
    pub(crate) from: PositionOfEpoch,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// The last so many only
    #[arg(long, value_name = "N", conflicts_with = "from")]
    pub(crate) last: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ParseReplyArguments {
    /// What the reply answers
    #[arg(long, value_enum)]
    pub(crate) kind: ReplyKindChoice,
    /// What the reply may speak of, as JSON: an object, or the one under a key; eval needs `pending`, dream needs `files`
    #[arg(long, value_name = "FILE#KEY")]
    pub(crate) context: Option<String>,
    /// The reply as the model gave it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReparseArguments {
    /// One trace only
    #[arg(long)]
    pub(crate) trace: Option<String>,
    /// Record nothing, only tell what would be
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReplyKindChoice {
    /// The evaluation of sources
    Eval,
    /// The extraction of knowledge
    Extract,
    /// The integration of a dream
    Dream,
}

/// A position of the log, with the epoch that it was handed out in, if the caller kept that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionOfEpoch {
    pub(crate) epoch: Option<u64>,
    position: u64,
}

impl PositionOfEpoch {
    /// The position, if it is not of another epoch than the store.
    pub(crate) fn of(self, engine: &cognilog::Engine) -> Result<cognilog::Position, cognilog::Error> {
        self.epoch.map_or(Ok(()), |epoch| engine.check_epoch(epoch))?;
        Ok(cognilog::Position(self.position))
    }
}

impl std::str::FromStr for PositionOfEpoch {
    type Err = String;

    fn from_str(text: &str) -> Result<PositionOfEpoch, String> {
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no position: write P or EPOCH.P"));
        match text.split_once('.') {
            Some((epoch, position)) => Ok(PositionOfEpoch { epoch: Some(number(epoch)?), position: number(position)? }),
            None => Ok(PositionOfEpoch { epoch: None, position: number(text)? }),
        }
    }
}

fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is no time: write 10s, 500ms, 2m or 0");
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    match &text[end..] {
        "ms" => Ok(std::time::Duration::from_millis(number)),
        "s" | "" => Ok(std::time::Duration::from_secs(number)),
        "m" => Ok(std::time::Duration::from_secs(number.saturating_mul(60))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(parse_duration(text).ok().map(|time| time.as_millis() as u64), expect, "{text}");
        };
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("0", Some(0));
        check("2m", Some(120_000));
        check("", None);
        check("s", None);
        check("-1s", None);
        check("1h", None);
    }
}
