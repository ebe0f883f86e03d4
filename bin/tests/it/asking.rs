//! `evaluate`, `extract` and the demo against a model endpoint on loopback, a well-behaved one and others.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::common::{Place, Ran, finish};

/// How an endpoint answers every call.
#[derive(Clone)]
enum Answer {
    /// With a chat completion of this text.
    Says(String),
    /// With these bytes.
    Raw(String),
    Hangs,
}

/// An endpoint on loopback, and the requests it got.
struct Endpoint {
    url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Endpoint {
    fn new(answer: Answer) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let endpoint = Endpoint { url, requests: Arc::default() };
        let requests = Arc::clone(&endpoint.requests);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read_request(&mut stream) else { continue };
                requests.lock().unwrap().push(request);
                let raw = match &answer {
                    Answer::Hangs => {
                        held.push(stream);
                        continue;
                    }
                    Answer::Raw(raw) => raw.clone(),
                    Answer::Says(text) => {
                        let message = json!({"role": "assistant", "content": text});
                        let choices = [json!({"index": 0, "message": message, "finish_reason": "stop"})];
                        let body = json!({"model": "small-1", "choices": choices}).to_string();
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
                        format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                    }
                };
                let _ = stream.write_all(raw.as_bytes());
            }
        });
        endpoint
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Ran {
        let mut command = place.command(arguments);
        command
            .env("OPENAI_BASE_URL", &self.url)
            .env("OPENAI_API_KEY", "key-of-the-model")
            .env("COGNILOG_MODEL", "small");
        let ran = finish(command, b"");
        assert!(!ran.err.contains("key-of-the-model") && !ran.out.contains("key-of-the-model"));
        ran
    }
}

fn read_request(stream: &mut std::net::TcpStream) -> Option<Value> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(request) = end.and_then(|end| serde_json::from_slice(&bytes[end + 4..]).ok()) {
            return Some(request);
        }
    }
}

/// A store with a trace of one query, and a message in it.
fn place(messages: bool) -> Place {
    let place = Place::with_store();
    let query = json!({"type": "query", "sequence": 4, "query": "q", "source_ids": ["k-1", "k-2"], "sources": []});
    let message = json!({"type": "message", "sequence": 5, "role": "assistant", "content": "I raised the strength."});
    place.append("t", &format!("{query}\n{}", if messages { format!("{message}\n") } else { String::new() }));
    place
}

fn judged(source: &str) -> String {
    let assessments = [json!({"source_id": source, "status": "helpful", "reason": "seen"})];
    json!({"evaluations": [{"query_sequence": 4, "assessments": assessments}]}).to_string()
}

fn kinds(place: &Place) -> Vec<String> {
    place.log().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_model_judges_and_extracts() {
    let place = place(true);
    let endpoint = Endpoint::new(Answer::Says(judged("k-1")));
    let ran = endpoint.run(&place, &["evaluate", "t"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1 judgements recorded, 1 sources still wait\n"), "{}", ran.err);
    assert!(ran.err.contains("not taken: query 4, source k-2: not assessed, stays pending"), "{}", ran.err);
    let request = endpoint.requests.lock().unwrap()[0].clone();
    assert_eq!(request["model"], "small");
    assert_eq!(request["messages"][0]["content"], "I raised the strength.");
    assert!(request["messages"][1]["content"].as_str().unwrap().contains("source_id: k-1"));

    let reply = json!({"extractions": [{"types": ["tool"], "task": "t", "content": "Raise it first."}]}).to_string();
    let endpoint = Endpoint::new(Answer::Says(reply));
    let ran = endpoint.run(&place, &["--json", "extract", "t", "--model", "large"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&told["branch_type"], &told["accepted"]), (&json!("reflection"), &json!(1)));
    assert_eq!(endpoint.requests.lock().unwrap()[0]["model"], "large");
    let waiting = place.json(&["pending", "extractions"]);
    assert_eq!(waiting[0]["extraction_id"], told["extraction_ids"][0]);
    place.verified();
}

#[test]
fn prompts_are_those_of_the_settings() {
    let place = place(true);
    place.write("own.md", "{% for query in queries %}Judge {{ query.sequence }}!{% endfor %}");
    let own = place.path("own.md").display().to_string();
    let settings = |text: &str| drop(place.write(".cognilog/cognilog.toml", text));
    let endpoint = Endpoint::new(Answer::Says(judged("k-1")));
    settings(&format!("[workflow]\nevaluation_prompt = {own:?}\nlanguage = \"zh\"\n"));
    assert_eq!(endpoint.run(&place, &["evaluate", "t"]).code, 0);
    assert_eq!(endpoint.run(&place, &["extract", "t"]).code, 1, "an evaluation is no extraction");
    let requests = endpoint.requests.lock().unwrap().clone();
    assert_eq!(requests[0]["messages"][1]["content"], "Judge 4!");
    assert!(requests[1]["messages"][1]["content"].as_str().unwrap().starts_with("你是知识提取助手"));

    place.write("own.md", "{{ mission }}");
    let ran = endpoint.run(&place, &["evaluate", "t"]);
    assert!(ran.code == 1 && ran.err.contains("the template of the evaluation prompt, line 1"), "{}", ran.err);
    settings("[workflow]\nevaluation_prompt = \"/missing.md\"\n");
    assert!(endpoint.run(&place, &["evaluate", "t"]).err.contains("/missing.md"));
    settings("[workflow]\nlanguage = \"zn\"\n");
    let ran = endpoint.run(&place, &["evaluate", "t"]);
    assert!(ran.code == 2 && ran.err.contains("the nearest is \"zh\""), "{}", ran.err);
}

#[test]
fn what_cannot_be_asked_is_refused_with_a_hint() {
    let place = place(false);
    let endpoint = Endpoint::new(Answer::Says(judged("k-1")));
    let ran = endpoint.run(&place, &["--json", "evaluate", "t"]);
    let error: Value = serde_json::from_str(ran.err.trim()).unwrap();
    assert_eq!((ran.code, &error["error"]["code"]), (1, &json!("no_messages")));
    assert!(error["error"]["hint"].as_str().unwrap().contains("--blind"));
    assert_eq!((kinds(&place), endpoint.requests.lock().unwrap().len()), (vec!["query".to_owned()], 0));
    assert_eq!(endpoint.run(&place, &["evaluate", "t", "--blind"]).code, 0);
    assert_eq!(endpoint.run(&place, &["evaluate", "missing"]).code, 1);
    let ran = place.run(&["evaluate", "t"]);
    assert_eq!(ran.code, 1, "no endpoint is named");
    assert!(ran.err.contains("OPENAI_BASE_URL") || ran.err.contains("COGNILOG_MODEL"), "{}", ran.err);
}

#[test]
fn an_endpoint_that_misbehaves_costs_nothing() {
    let body = |status: &str, body: &str| {
        Answer::Raw(format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    for (answer, code) in [
        (Answer::Hangs, "model_timed_out"),
        (body("200 OK", "<html>sign in</html>"), "model_bad_answer"),
        (body("401 Unauthorized", "{}"), "model_unauthorised"),
        (
            Answer::Raw("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_owned()),
            "model_redirected",
        ),
    ] {
        let place = place(true);
        let ran = Endpoint::new(answer).run(&place, &["--json", "evaluate", "t", "--deadline", "2"]);
        let error: Value = serde_json::from_str(ran.err.trim()).unwrap();
        assert_eq!((ran.code, error["error"]["code"].as_str()), (1, Some(code)), "{}", ran.err);
        assert_eq!(kinds(&place), ["query", "message", "side_branch_started", "side_branch_finished"], "{code}");
        assert_eq!(place.json(&["pending", "evaluations"])[0]["missing_source_ids"], json!(["k-1", "k-2"]));
        // The next time a model is there it is asked again.
        assert_eq!(Endpoint::new(Answer::Says(judged("k-2"))).run(&place, &["evaluate", "t"]).code, 0);
    }
}

#[test]
fn a_reply_that_cannot_be_read_is_kept_and_asked_for_once_more() {
    let place = place(true);
    let endpoint = Endpoint::new(Answer::Says("I think it was all fine.".to_owned()));
    let ran = endpoint.run(&place, &["evaluate", "t"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "0 judgements recorded, 2 sources still wait\n"));
    assert!(ran.err.contains("nothing was taken of the reply") && ran.err.contains("cognilog reparse"), "{}", ran.err);
    assert_eq!(endpoint.requests.lock().unwrap().len(), 2);
    let unparsed = ["side_branch_started", "reply_unparsed"];
    let expect = ["query", "message"].iter().chain(&unparsed).chain(&unparsed).chain(&["side_branch_finished"]);
    assert_eq!(kinds(&place), expect.map(|kind| (*kind).to_owned()).collect::<Vec<_>>());
}

#[test]
fn the_demo_runs_on_a_live_endpoint_whatever_it_says() {
    let refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned();
    for answer in [Answer::Says("Happy to help!".to_owned()), Answer::Raw(refused)] {
        let place = Place::new();
        let ran = Endpoint::new(answer).run(&place, &["demo"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("\n12. verify: "), "{}", ran.out);
    }
}
