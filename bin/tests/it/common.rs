//! A folder with a store in it, and the exe run there.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No run takes longer, on a busy machine either; the longer variants run for a minute by themselves.
const LIMIT: Duration = Duration::from_secs(180);

/// Whether the longer variants run.
pub(crate) fn soak() -> bool {
    std::env::var_os("COGNILOG_SOAK").is_some()
}

/// A folder of a test.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What a run gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with an empty store.
    pub(crate) fn with_store() -> Place {
        let place = Place::new();
        place.ok(&["init"]);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cognilog"));
        command.args(arguments).current_dir(self.folder.path()).env_remove("COGNILOG_STORE");
        // Settings of whoever runs the tests stay out of them.
        command.env("XDG_CONFIG_HOME", self.path("settings")).env_remove("RUST_BACKTRACE");
        let endpoint = ["OPENAI_BASE_URL", "OPENAI_API_KEY"];
        let models = ["COGNILOG_MODEL", "COGNILOG_MODEL_STRONG", "COGNILOG_EMBEDDING_MODEL"];
        for name in endpoint.iter().chain(&models) {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.feed(arguments, "")
    }

    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        finish(self.command(arguments), input.as_bytes())
    }

    /// Runs what has to succeed, and gives its stdout.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        ran.out
    }

    /// Appends lines, which has to succeed.
    pub(crate) fn append(&self, trace: &str, input: &str) -> String {
        let ran = self.feed(&["append", trace], input);
        assert_eq!(ran.code, 0, "append {trace}: {}", ran.err);
        ran.out
    }

    /// What a verb prints with `--json`, as one value.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(arguments);
        serde_json::from_str(&self.ok(&all)).unwrap()
    }

    /// The log as `log --ndjson` prints it.
    pub(crate) fn log(&self) -> Vec<Value> {
        lines(&self.ok(&["log", "--ndjson"]))
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::new(self.command(arguments))
    }

    /// The store is as it was recorded.
    pub(crate) fn verified(&self) {
        let ran = self.run(&["verify"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
}

/// One JSON value a line.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A query event.
pub(crate) fn query(text: &str) -> String {
    serde_json::json!({ "type": "query", "query": text }).to_string() + "\n"
}

/// Runs a command to its end, killing it when it takes too long.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A verb that reads no input ends before it took it.
            let _ = stdin.write_all(input);
        });
        let out = scope.spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        });
        let err = scope.spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        });
        let code = wait(&mut child, LIMIT);
        Ran { code, out: out.join().unwrap(), err: err.join().unwrap() }
    })
}

/// Waits for the end; a signal counts as minus its number.
fn wait(child: &mut Child, limit: Duration) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| -status.signal().unwrap_or(0));
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("process {} was still running after {limit:?}", child.id());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that runs beside the test; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
    said: VecDeque<String>,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let out = reader(child.stdout.take().unwrap());
        let err = reader(child.stderr.take().unwrap());
        Running { child, stdin, out, err, said: VecDeque::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its stdin; false when it is gone.
    pub(crate) fn send(&mut self, text: &str) -> bool {
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(text.as_bytes()).is_ok())
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line of its stdout.
    pub(crate) fn line(&mut self) -> String {
        self.out.recv_timeout(LIMIT).expect("a line on stdout")
    }

    /// The lines of its stdout that came so far; all of them once it has ended.
    pub(crate) fn lines_so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.out.recv_timeout(Duration::from_millis(1)).ok()).collect()
    }

    /// Waits until a line with this text comes on its stderr.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            match self.err.recv_timeout(Duration::from_millis(100)) {
                Ok(line) if line.contains(text) => return,
                Ok(line) => self.said.push_back(line),
                Err(_) => {}
            }
        }
        panic!("{text:?} did not come on stderr, but {:?}", self.said);
    }

    /// What it said on stderr, apart from what was waited for.
    pub(crate) fn said(&mut self) -> String {
        self.said.extend(std::iter::from_fn(|| self.err.recv_timeout(Duration::from_millis(1)).ok()));
        self.said.iter().map(|line| format!("{line}\n")).collect()
    }

    /// SIGKILL, and wait for the end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end and gives the exit code; a signal counts as minus its number.
    pub(crate) fn end(&mut self) -> i32 {
        self.stdin = None;
        wait(&mut self.child, LIMIT)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            // A line that the process could not finish before its end is no line.
            if line.pop() != Some(b'\n') || send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receive
}

/// Python running a script with arguments; none, and a word about it, where there is no python3.
pub(crate) fn python(script: &str, arguments: &[&Path]) -> Option<Running> {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("python3 is not here: nothing was tested with it");
        return None;
    }
    let mut command = Command::new("python3");
    command.arg("-c").arg(script).args(arguments);
    Some(Running::new(command))
}

/// Waits until something holds; false when it does not within the time.
pub(crate) fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Numbers that look random and are the same in every run (xorshift, Marsaglia 2003).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
