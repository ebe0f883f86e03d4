//! The sink `http` against a hub on loopback that answers well, badly, slowly, for ever, or not at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cognilog::{CommitReport, CommitSelection, HttpHeader, HttpOptions, HttpSink, Verdict};
use serde_json::{Value, json};

use crate::common::Bench;
use crate::reviewing::{pending, request};

/// What a hub was asked: head and body.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// A hub that answers each connection with `answer`.
fn hub(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/api/knowledge?x=1", listener.local_addr().unwrap());
    let asked = Asked::default();
    let (answer, seen) = (Arc::new(answer), Arc::clone(&asked));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|bytes| bytes > 2) {}
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
                });
                let mut body = vec![0; length.unwrap_or(0)];
                if reader.read_exact(&mut body).is_ok() && !head.is_empty() {
                    seen.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
                    answer(stream);
                }
            });
        }
    });
    (url, asked)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// A hub that gives one answer.
fn fixed(text: String) -> (String, Asked) {
    hub(move |mut stream| {
        let _ = stream.write_all(text.as_bytes());
    })
}

fn options(url: &str) -> HttpOptions {
    let mut options = HttpOptions::new(url);
    options.header = Some(HttpHeader::new("Authorization", "Bearer secret-key-1"));
    options.deadline = Duration::from_secs(20);
    options
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.append("t", &pending("ext 知-1", "content"));
    bench.engine.review(request("ext 知-1", Verdict::Approve)).unwrap();
    bench
}

fn commit(bench: &Bench, options: HttpOptions) -> CommitReport {
    let mut selection = CommitSelection::default();
    selection.retry_unanswered = true;
    let plan = bench.engine.commit_plan(&selection).unwrap();
    let sink = HttpSink::new(options).unwrap();
    bench.engine.commit(&plan, &sink, |_| {}).unwrap().remove(0)
}

#[test]
fn what_an_answer_means() {
    let check = |status: &str, body: &str, outcome: &str, detail: &str| {
        let (url, _) = fixed(answer(status, body));
        let report = commit(&bench(), options(&url));
        let told = report.knowledge_id.or(report.error).unwrap_or_default();
        assert_eq!(report.outcome, outcome, "{status} {body}: {told}");
        assert!(told.contains(detail), "{status} {body}: {told}");
        assert!(!told.contains("secret-key-1"), "{told}");
    };
    check("200 OK", r#"{"knowledge_id":"knowledge-1"}"#, "saved", "knowledge-1");
    check("201 Created", r#"{"status":"success","id":"k-2"}"#, "saved", "k-2");
    check("200 OK", r#"{"outcome":"skipped","existing_id":"k-3"}"#, "skipped", "k-3");
    check("200 OK", r#"{"status":"duplicate","knowledge_id":"k-4"}"#, "skipped", "k-4");
    check("200 OK", r#"{"status":"error","message":"scope"}"#, "failed", "scope");
    check("200 OK", r#"{"error":"no room"}"#, "failed", "no room");
    // What does not name its record is not taken for saved.
    check("200 OK", "<html>log in</html>", "unknown", "without a JSON object");
    check("200 OK", "", "unknown", "without a JSON object");
    check("204 No Content", "", "unknown", "without a JSON object");
    check("200 OK", r#"{"ok":true}"#, "unknown", "without a record's id");
    check(
        "400 Bad Request",
        "field   tags\nis wrong; Bearer secret-key-1",
        "failed",
        "field tags is wrong; (not shown)",
    );
    check("401 Unauthorized", "key secret-key-1 is unknown", "failed", "key (not shown) is unknown");
    check("409 Conflict", "{}", "failed", "409");
    check("429 Too Many Requests", "slow down", "failed", "slow down");
    check("500 Internal Server Error", "oh", "failed", "500");
    check("502 Bad Gateway", "", "unknown", "502");
    check("504 Gateway Timeout", "", "unknown", "504");
    check("HTTP", "", "unknown", "no answer");
    let (url, asked) = fixed(answer("200 OK", r#"{"id":"never"}"#));
    let moved = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
    let (url, _) = fixed(moved);
    let report = commit(&bench(), options(&url));
    assert_eq!(report.outcome, "failed");
    assert!(report.error.unwrap().contains("not followed"));
    assert!(asked.lock().unwrap().is_empty(), "the key goes nowhere else");
}

#[test]
fn what_the_hub_is_asked() {
    let (url, asked) = fixed(answer("200 OK", r#"{"id":"k"}"#));
    let mut options = options(&url);
    for (ours, theirs) in [("task", "title"), ("scopes", ""), ("extraction_id", "external_id"), ("source", "")] {
        options.fields.insert(ours.to_owned(), theirs.to_owned());
    }
    assert_eq!(commit(&bench(), options).outcome, "saved");
    let asked = asked.lock().unwrap();
    let (head, body) = &asked[0];
    let head = head.to_lowercase();
    for line in [
        "post /api/knowledge?x=1 http/1.1",
        "idempotency-key: ext%20%e7%9f%a5-1",
        "authorization: bearer secret-key-1",
        "content-type: application/json",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let expect = json!({"external_id": "ext 知-1", "types": ["tool"], "title": "t", "content": "content", "score": 3});
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expect);
}

/// Each ends before its deadline, or soon after, as unknown; and the next request, with the same key, is asked for.
#[test]
fn a_hub_that_hangs_drips_or_never_ends_is_unknown_in_time() {
    let hang: fn(TcpStream) = |_stream| std::thread::sleep(Duration::from_secs(20));
    let drip: fn(TcpStream) = |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let drip_head: fn(TcpStream) = |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let endless: fn(TcpStream) = |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b' '; 4_096]).is_ok() {}
    };
    let cut: fn(TcpStream) = |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"id\":");
    };
    let close: fn(TcpStream) = drop;
    for (name, behaviour) in
        [("hang", hang), ("drip", drip), ("drip head", drip_head), ("endless", endless), ("cut", cut), ("close", close)]
    {
        let (url, asked) = hub(behaviour);
        let bench = bench();
        let mut short = options(&url);
        short.deadline = Duration::from_millis(700);
        let began = Instant::now();
        let report = commit(&bench, short);
        assert_eq!(report.outcome, "unknown", "{name}: {:?}", report.error);
        assert!(began.elapsed() < Duration::from_secs(10), "{name} took {:?}", began.elapsed());
        // By itself a commit leaves it; asked to, it sends it again with the same key.
        assert!(bench.engine.commit_plan(&CommitSelection::default()).unwrap().items.is_empty());
        let (url, again) = fixed(answer("200 OK", r#"{"id":"k"}"#));
        assert_eq!(commit(&bench, options(&url)).outcome, "saved");
        let key = |asked: &Asked| {
            let asked = asked.lock().unwrap();
            let head = asked[0].0.to_lowercase();
            head.lines().find(|line| line.starts_with("idempotency-key:")).unwrap().to_owned()
        };
        assert_eq!(key(&asked), key(&again));
    }
}

#[test]
fn a_hub_that_is_not_there_has_nothing() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let report = commit(&bench(), options(&format!("http://127.0.0.1:{port}/")));
    assert_eq!(report.outcome, "failed", "{report:?}");
    assert!(report.error.unwrap().contains("cannot be reached"));
    let report = commit(&bench(), options("https://127.0.0.1:1/"));
    assert_eq!(report.outcome, "failed", "{report:?}");
}

#[test]
fn a_sink_that_cannot_be_used_says_why_and_never_the_key() {
    let check = |change: fn(&mut HttpOptions), expect: &str| {
        let mut wrong = options("http://127.0.0.1:1/");
        change(&mut wrong);
        let shown = format!("{wrong:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let error = HttpSink::new(wrong).unwrap_err();
        assert_eq!(error.code(), "bad_sink");
        assert!(error.to_string().contains(expect) && !error.to_string().contains("secret"), "{error}");
        assert!(!error.to_string().contains("password@"), "{error}");
    };
    check(|options| options.url = "nonsense".to_owned(), "`url`");
    check(|options| options.url = "ftp://x/".to_owned(), "neither http nor https");
    check(|options| options.url = "http://me:password@x/".to_owned(), "in a header");
    check(|options| options.header = Some(HttpHeader::new("a b", "secret")), "no name of a header");
    check(|options| options.header = Some(HttpHeader::new("a", "secret\nx")), "characters");
    check(|options| drop(options.fields.insert("titel".to_owned(), "x".to_owned())), "no field `titel`");
}
