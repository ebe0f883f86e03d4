//! The OpenAI-compatible client against endpoints that misbehave: a clear outcome in time, and the key nowhere.

use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use cognilog::model::openai::{OpenAi, OpenAiSettings};
use cognilog::model::{ChatModel, ChatReply, ChatRequest, Embedder, ModelError, ModelLimits, ResponseFormat, Tool};
use serde_json::{Value, json};

use super::loopback::{Act, Loopback};

/// The key of these tests; endpoints repeat it wherever they can.
const KEY: &str = "sk-0123456789-not-to-be-seen";
/// A deadline that is meant to pass. Nothing depends on how exactly it is kept.
const SHORT: Duration = Duration::from_millis(300);
/// A deadline that no test comes near.
const LONG: Duration = Duration::from_secs(120);

/// Limits that make tests short: small answers, hardly any wait before a retry.
pub(crate) fn limits() -> ModelLimits {
    let mut limits = ModelLimits::default();
    limits.deadline = LONG;
    limits.chat_bytes_max = 64 << 10;
    limits.embeddings_bytes_max = 64 << 10;
    limits.error_bytes_max = 8 << 10;
    limits.retries_max = 2;
    limits.retry_delay_min = Duration::from_millis(1);
    limits.retry_delay_max = Duration::from_millis(2);
    limits
}

/// The client of a server.
pub(crate) fn open(server: &Loopback, limits: ModelLimits) -> OpenAi {
    open_at(&format!("http://{}/v1/", server.address()), limits)
}

fn open_at(base_url: &str, limits: ModelLimits) -> OpenAi {
    OpenAi::new(settings_at(base_url).with_limits(limits)).unwrap()
}

fn settings_at(base_url: &str) -> OpenAiSettings {
    let settings = OpenAiSettings::from_lookup(|name| match name {
        "OPENAI_BASE_URL" => Some(base_url.to_owned()),
        "OPENAI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    });
    settings.unwrap()
}

fn said(text: &str) -> Act {
    Act::json(200, json!({ "choices": [{ "message": { "content": text }, "finish_reason": "stop" }] }).to_string())
}

/// Everything that crates below log, at every level.
fn logged() -> &'static Mutex<Vec<String>> {
    struct Keeper;
    static LINES: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    impl log::Log for Keeper {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            if let Some(lines) = LINES.get() {
                lines.lock().unwrap().push(record.args().to_string());
            }
        }
        fn flush(&self) {}
    }
    LINES.get_or_init(|| {
        log::set_logger(&Keeper).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        Mutex::default()
    })
}

fn assert_no_key(what: &impl Debug) {
    let text = format!("{what:?} {what:#?}");
    assert!(!text.contains(KEY), "{text}");
}

/// Asks a server that acts like this, and checks the outcome (a reply's text or an error's code) and how many requests
/// the server saw.
fn check(
    name: &str,
    acts: Vec<Act>,
    deadline: Duration,
    expect: Result<&str, &str>,
    requests: usize,
) -> Option<ModelError> {
    let lines = logged();
    let server = Loopback::script(acts);
    let endpoint = open(&server, limits());
    let model = endpoint.chat_model("small");
    let found = model.complete(&ChatRequest::user("hello").with_deadline(deadline));
    match &found {
        Ok(reply) => assert_eq!(Ok(reply.text.as_str()), expect, "{name}"),
        Err(error) => {
            assert_eq!(Err(error.code()), expect, "{name}: {error}");
            assert_no_key(error);
            let text = error.to_string();
            assert!(!text.contains(KEY), "{text}");
            assert!(text.chars().count() < 600 && !text.contains('\n'), "{text}");
            assert!(text.contains(&server.address().to_string()), "{text}");
        }
    }
    assert_no_key(&endpoint);
    assert_no_key(&model);
    // When time is short, a machine with much to do may not have come as far as that.
    let seen = server.seen().len();
    assert!(seen == requests || (deadline == SHORT && seen < requests), "{name}: {seen} requests");
    let lines = lines.lock().unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| !line.contains(KEY)), "{name}: {lines:?}");
    found.err()
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

fn bytes(text: impl Into<String>) -> Vec<u8> {
    text.into().into_bytes()
}

#[test]
fn endpoints_that_never_come_to_an_end() {
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    let chunked = |head: &str| bytes(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    check("hangs", vec![Act::Hang(vec![])], SHORT, Err("model_timed_out"), 1);
    check("hangs in its headers", vec![Act::Hang(bytes(HEAD))], SHORT, Err("model_timed_out"), 1);
    let half = bytes(format!("{HEAD}Content-Length: 100\r\n\r\n{{"));
    let error = check("hangs in its body", vec![Act::Hang(half)], SHORT, Err("model_timed_out"), 1).unwrap();
    assert!(matches!(error, ModelError::TimedOut { deadline: SHORT, attempts: 1, .. }), "{error:?}");
    let drops = bytes("HTTP/1.1 200 OK\r\nX: ");
    check("drips its headers", vec![Act::Drip(drops, bytes("x"))], SHORT, Err("model_timed_out"), 1);
    let drops = bytes(format!("{HEAD}Content-Length: 100000\r\n\r\n"));
    check("drips its body", vec![Act::Drip(drops, bytes(" "))], SHORT, Err("model_timed_out"), 1);
    let hanging = vec![Act::json(503, "{}"), Act::Hang(vec![])];
    let error = check("hangs at the second attempt", hanging, SHORT * 5, Err("model_timed_out"), 2).unwrap();
    assert!(matches!(error, ModelError::TimedOut { attempts: 2, .. }), "{error:?}");
    let endless = Act::Endless(chunked(HEAD), bytes(chunk.clone()));
    check("an endless body", vec![endless], LONG, Err("model_too_large"), 1);
    let announced = Act::Endless(bytes(format!("{HEAD}Content-Length: 99999999999\r\n\r\n")), bytes("          "));
    check("an endless body that is announced", vec![announced], LONG, Err("model_too_large"), 1);
    let endless = Act::Endless(chunked("HTTP/1.1 500 No\r\n"), bytes(chunk));
    check("an endless error", vec![endless], LONG, Err("model_failed"), 3);
    let endless = Act::Endless(bytes("HTTP/1.1 200 OK\r\n"), bytes(format!("X: {}\r\n", "x".repeat(1_000))));
    check("endless headers", vec![endless], LONG, Err("model_unreachable"), 3);
    let endless = Act::Endless(bytes("HTTP/1.1 200 OK\r\nX: "), bytes("x".repeat(1_000)));
    check("an endless header", vec![endless], LONG, Err("model_unreachable"), 3);
}

#[test]
fn endpoints_that_fail_for_a_while_or_for_good() {
    let failing =
        |status: u16| Act::json(status, json!({ "error": { "message": format!("{KEY} is bad") } }).to_string());
    check("429, then well", vec![failing(429), said("hi")], LONG, Ok("hi"), 2);
    check("500 twice, then well", vec![failing(500), failing(502), said("hi")], LONG, Ok("hi"), 3);
    check("429 for good", vec![failing(429)], LONG, Err("model_rate_limited"), 3);
    check("503 for good", vec![failing(503)], LONG, Err("model_failed"), 3);
    check("400", vec![failing(400), said("hi")], LONG, Err("model_refused"), 1);
    check("401", vec![failing(401), said("hi")], LONG, Err("model_unauthorised"), 1);
    check("403", vec![failing(403), said("hi")], LONG, Err("model_unauthorised"), 1);
    check("404", vec![failing(404), said("hi")], LONG, Err("model_refused"), 1);
    let quota = Act::json(429, r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#);
    check("a quota that is used up", vec![quota], LONG, Err("model_rate_limited"), 1);
    let in_body = Act::json(200, r#"{"error":{"message":"busy","code":503}}"#);
    check("an error in a success", vec![in_body, said("hi")], LONG, Ok("hi"), 2);
    check("closes without an answer", vec![Act::Bytes(vec![])], LONG, Err("model_unreachable"), 3);
    check("no HTTP", vec![Act::Bytes(bytes("220 mail ready\r\n"))], LONG, Err("model_unreachable"), 3);
    let cut = Act::Bytes(bytes(format!("{HEAD}Content-Length: 100\r\n\r\n{{\"choices\":[")));
    check("breaks off", vec![cut.clone()], LONG, Err("model_unreachable"), 3);
    check("breaks off once", vec![cut, said("hi")], LONG, Ok("hi"), 2);
}

#[test]
fn waits_that_endpoints_ask_for() {
    let asking = |status: u16, wait: &str| Act::json(status, "{}").with_header("Retry-After", wait);
    let begun = Instant::now();
    check("a second", vec![asking(429, "1"), said("hi")], LONG, Ok("hi"), 2);
    // Sleeping takes at least as long as it says.
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let error = check("an hour", vec![asking(429, "3600"), said("hi")], LONG, Err("model_rate_limited"), 1).unwrap();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3_600)));
    assert!(error.may_retry());
    let later = "Thu, 01 Jan 2099 00:00:00 GMT";
    let error = check("another year", vec![asking(503, later), said("hi")], LONG, Err("model_failed"), 1).unwrap();
    assert!(error.retry_after() > Some(Duration::from_secs(3_600)));
    let before = "Sun, 06 Nov 1994 08:49:37 GMT";
    check("a time that has passed", vec![asking(503, before), said("hi")], LONG, Ok("hi"), 2);
    check("no time at all", vec![asking(503, "soon"), said("hi")], LONG, Ok("hi"), 2);
}

#[test]
fn answers_that_are_none() {
    let html = format!("<html><body>\n<h1>Sign in</h1> {KEY}</body></html>");
    let answer = |status: u16, body: &str| Act::Answer(status, vec![("Content-Type", "text/html".into())], bytes(body));
    let error = check("HTML", vec![answer(200, &html)], LONG, Err("model_bad_answer"), 1).unwrap();
    assert!(error.to_string().contains("<h1>Sign in</h1> [key]"), "{error}");
    check("HTML of a proxy", vec![answer(502, &html)], LONG, Err("model_failed"), 3);
    check("an empty answer", vec![Act::json(200, "")], LONG, Err("model_bad_answer"), 1);
    check("no JSON", vec![Act::json(200, "{\"choices\": [{]")], LONG, Err("model_bad_answer"), 1);
    check("no choices", vec![Act::json(200, "{}")], LONG, Err("model_bad_answer"), 1);
    check("deep nesting", vec![Act::json(200, "[".repeat(50_000))], LONG, Err("model_bad_answer"), 1);
    check("204", vec![Act::json(204, "")], LONG, Err("model_bad_answer"), 1);
    // Nothing is unpacked: what would be gigabytes stays the bytes that came.
    let bomb = Act::Answer(200, vec![("Content-Encoding", "gzip".into())], b"\x1f\x8b\x08\0\0\0\0\0".repeat(1_000));
    let error = check("a gzip bomb", vec![bomb], LONG, Err("model_bad_answer"), 1).unwrap();
    assert!(error.to_string().contains("compressed (gzip)"), "{error}");
}

#[test]
fn answers_that_can_be_read_all_the_same() {
    let content = |raw: &str| format!(r#"{{"choices":[{{"message":{{"content":"{raw}"}}}}]}}"#);
    check("a lone surrogate", vec![Act::json(200, content(r"a\ud83d"))], LONG, Ok("a\u{fffd}"), 1);
    check("a pair", vec![Act::json(200, content(r"\ud83d\ude42"))], LONG, Ok("🙂"), 1);
    check("a byte order mark", vec![Act::json(200, format!("\u{feff}{}", content("a")))], LONG, Ok("a"), 1);
    let (before, after) = (r#"{"choices":[{"message":{"content":"a"#, r#"b"}}]}"#);
    let gbk = [before.as_bytes(), &[0xc2, 0xd6], after.as_bytes()].concat();
    check("bytes of another encoding", vec![Act::Answer(200, vec![], gbk)], LONG, Ok("a\u{fffd}\u{fffd}b"), 1);
    let chunked = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\n{{\"c\r\n");
    let rest = &content("a")[3..];
    let chunked = format!("{chunked}{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
    check("an answer in chunks", vec![Act::Bytes(bytes(chunked))], LONG, Ok("a"), 1);
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Loopback::script(vec![said("hi")]);
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/v1/chat/completions?key={KEY}", elsewhere.address());
        let act = Act::json(status, "").with_header("Location", &location);
        let error = check("a redirect", vec![act], LONG, Err("model_redirected"), 1).unwrap();
        assert!(error.to_string().contains(&format!("http://{}", elsewhere.address())), "{error}");
    }
    check("a redirect to nowhere", vec![Act::json(302, "")], LONG, Err("model_redirected"), 1);
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn endpoints_that_are_not_there() {
    let _ = logged();
    // Nothing listens on this port but with the rights of the system.
    let model = open_at("http://127.0.0.1:1/v1", limits()).chat_model("small");
    let error = model.complete(&ChatRequest::user("hello")).unwrap_err();
    assert_eq!((error.code(), error.may_retry()), ("model_unreachable", true), "{error}");
    assert_no_key(&error);
    // A server that speaks no TLS.
    let server = Loopback::script(vec![said("hi")]);
    check_tls(&format!("https://{}/v1", server.address()), "model_unreachable");
    assert!(server.seen().is_empty());
}

/// Asks an endpoint over TLS. A machine that has no certificates says so before anything is sent.
fn check_tls(base_url: &str, expect: &str) {
    let settings = settings_at(base_url).with_limits(limits());
    let outcome = OpenAi::new(settings)
        .map(|endpoint| endpoint.chat_model("small").complete(&ChatRequest::user("hello")).unwrap_err());
    match outcome {
        Ok(error) => assert_eq!(error.code(), expect, "{error}"),
        Err(error) => assert_eq!(error.code(), "model_not_configured", "{error}"),
    }
}

#[test]
fn an_endpoint_that_nobody_vouches_for_is_told_nothing() {
    use std::io::Read;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
    let all = std::sync::Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(std::sync::Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut text = Vec::new();
            // The client breaks the handshake off, which is an error at this end.
            let _ = stream.read_to_end(&mut text);
            all.lock().unwrap().push(text);
        }
    });
    check_tls(&base_url, "model_untrusted");
    // It was tried once at the most, and nothing came through.
    let heard = heard.lock().unwrap();
    assert!(heard.len() <= 1 && heard.iter().all(Vec::is_empty), "{heard:?}");
}

#[test]
fn what_is_sent() {
    let server = Loopback::script(vec![said("hi")]);
    let model = open(&server, limits()).chat_model("small");
    let schema = json!({ "type": "object", "properties": { "b": {}, "a": {} } });
    let tool = Tool { name: "save".into(), description: "Saves.".into(), parameters: json!({ "type": "object" }) };
    let request = ChatRequest::user("你好")
        .with_reply_schema("answer", schema.clone())
        .with_tool(tool)
        .with_tokens_max(64)
        .with_temperature(0.5);
    model.complete(&request).unwrap();
    model.complete(&ChatRequest::user("plain")).unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/chat/completions");
    assert_eq!(seen[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].header("accept-encoding"), None);
    let function = json!({ "name": "save", "description": "Saves.", "parameters": { "type": "object" } });
    let expect = json!({
        "model": "small",
        "messages": [{ "role": "user", "content": "你好" }],
        "stream": false,
        "temperature": 0.5,
        "max_tokens": 64,
        "response_format":
            { "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } },
        "tools": [{ "type": "function", "function": function }],
    });
    assert_eq!(seen[0].body, expect);
    let expect = json!({ "model": "small", "messages": [{ "role": "user", "content": "plain" }], "stream": false });
    assert_eq!(seen[1].body, expect);
}

/// How a request asked for the form of its reply.
fn format_of(body: &Value) -> &str {
    body["response_format"]["type"].as_str().unwrap_or("none")
}

#[test]
fn forms_of_reply_that_an_endpoint_refuses_are_left_out_and_remembered() {
    let refusing = |refused: &'static [&'static str], status: u16, reason: &'static str| {
        Loopback::new(move |_, seen| {
            let refuses = refused.contains(&format_of(&seen.body)) && seen.body["model"] == "small";
            if refuses { Act::json(status, json!({ "error": { "message": reason } }).to_string()) } else { said("{}") }
        })
    };
    let request = ChatRequest::user("hello").with_reply_schema("answer", json!({ "type": "object" }));
    let check = |server: Loopback, expect: Result<ResponseFormat, &str>, forms: &[&str]| {
        let endpoint = open(&server, limits());
        for _ in 0..2 {
            let found = endpoint.chat_model("small").complete(&request);
            let found: Result<ChatReply, _> = found;
            assert_eq!(found.map(|reply| reply.response_format).map_err(|error| error.code()), expect);
        }
        // What one model does not take says nothing of another.
        let found = endpoint.chat_model("large").complete(&request).unwrap();
        assert_eq!(found.response_format, ResponseFormat::JsonSchema);
        let seen = server.seen();
        let asked: Vec<&str> = seen.iter().map(|seen| format_of(&seen.body)).collect();
        assert_eq!(asked, forms);
    };
    let unsupported = "response_format is not supported";
    check(
        refusing(&[], 400, unsupported),
        Ok(ResponseFormat::JsonSchema),
        &["json_schema", "json_schema", "json_schema"],
    );
    check(
        refusing(&["json_schema"], 400, unsupported),
        Ok(ResponseFormat::JsonObject),
        &["json_schema", "json_object", "json_object", "json_schema"],
    );
    check(
        refusing(&["json_schema", "json_object"], 422, ""),
        Ok(ResponseFormat::Prompt),
        &["json_schema", "json_object", "none", "none", "json_schema"],
    );
    check(
        refusing(&["json_schema"], 500, "failed to parse grammar"),
        Ok(ResponseFormat::JsonObject),
        &["json_schema", "json_schema", "json_schema", "json_object", "json_object", "json_schema"],
    );
    // A refusal for another reason is no reason to ask for less, now or later.
    check(
        refusing(&["json_schema", "json_object", "none"], 400, "the context is too long"),
        Err("model_refused"),
        &["json_schema", "json_schema", "json_schema"],
    );
    // Nor is one that stays when everything is left out.
    check(
        refusing(&["json_schema", "json_object", "none"], 400, unsupported),
        Err("model_refused"),
        &["json_schema", "json_object", "none", "json_schema", "json_object", "none", "json_schema"],
    );
}

#[test]
fn no_more_calls_than_the_limit_are_with_the_endpoint() {
    let server = Loopback::new(|_, _| {
        std::thread::sleep(Duration::from_millis(20));
        said("hi")
    });
    let mut limits = limits();
    limits.calls_at_once_max = 2;
    let model = open(&server, limits).chat_model("small");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| model.complete(&ChatRequest::user("hello")).unwrap());
        }
    });
    assert_eq!(server.seen().len(), 8);
    assert!(server.most_at_once() <= 2, "{}", server.most_at_once());
}

#[test]
fn a_caller_may_stand_on_a_thread_of_an_async_runtime() {
    let server = Loopback::script(vec![said("hi")]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let endpoint = open(&server, limits());
        let reply = endpoint.chat_model("small").complete(&ChatRequest::user("hello")).unwrap();
        assert_eq!(reply.text, "hi");
        // The client's own runtime ends here, within another one.
        drop(endpoint);
    });
}

#[test]
fn requests_over_their_limit_are_not_sent() {
    let server = Loopback::script(vec![said("hi")]);
    let mut limits = limits();
    limits.request_bytes_max = 1_000;
    let endpoint = open(&server, limits);
    let error = endpoint.chat_model("small").complete(&ChatRequest::user("x".repeat(1_000))).unwrap_err();
    assert_eq!(error.code(), "model_too_large");
    let error = endpoint.embedding_model("small").embed(&["x".repeat(1_000)]).unwrap_err();
    assert_eq!(error.code(), "model_too_large");
    assert!(server.seen().is_empty());
}

#[test]
fn models_of_the_settings() {
    let read = |set: &[&str]| {
        let settings = OpenAiSettings::from_lookup(|name| match name {
            "OPENAI_BASE_URL" => Some("http://127.0.0.1:1/v1".to_owned()),
            _ => set.contains(&name).then(|| name.to_lowercase()),
        });
        OpenAi::new(settings.unwrap()).unwrap()
    };
    let all = read(&["COGNILOG_MODEL", "COGNILOG_MODEL_STRONG", "COGNILOG_EMBEDDING_MODEL"]);
    assert_eq!(all.chat().unwrap().name(), "cognilog_model");
    assert_eq!(all.strong_chat().unwrap().name(), "cognilog_model_strong");
    assert_eq!(all.embedder().unwrap().name(), "cognilog_embedding_model");
    let none = read(&[]);
    assert_eq!(none.chat().unwrap_err().code(), "model_not_configured");
    assert!(none.strong_chat().is_none());
    assert!(none.embedder().unwrap_err().to_string().contains("COGNILOG_EMBEDDING_MODEL"));
}

#[test]
fn embeddings_that_are_none() {
    let check = |body: &str, expect: &str| {
        let server = Loopback::script(vec![Act::json(200, body)]);
        let mut limits = limits();
        limits.embedding_texts_max = 1;
        let embedder = open(&server, limits).embedding_model("small");
        let error = embedder.embed(&["a".into(), "b".into()]).unwrap_err();
        assert_eq!(error.code(), expect, "{body}: {error}");
        assert!(server.seen()[0].path == "/v1/embeddings");
    };
    check("<html>", "model_bad_answer");
    check(r#"{"data":[]}"#, "model_bad_answer");
    check(r#"{"data":[{"embedding":[]}]}"#, "model_bad_answer");
    check(&format!(r#"{{"data":[{{"embedding":[{}1]}}]}}"#, "1,".repeat(40_000)), "model_too_large");
    check(r#"{"error":{"code":401}}"#, "model_unauthorised");
    // One text at a time: the second vector is of another length.
    let lengths = Loopback::new(|index, _| {
        Act::json(200, if index == 0 { r#"{"data":[{"embedding":[1]}]}"# } else { r#"{"data":[{"embedding":[1,2]}]}"# })
    });
    let mut limits = limits();
    limits.embedding_texts_max = 1;
    let error = open(&lengths, limits).embedding_model("small").embed(&["a".into(), "b".into()]).unwrap_err();
    assert!(error.to_string().contains("another length"), "{error}");
}
