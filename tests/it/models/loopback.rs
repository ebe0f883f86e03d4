//! A tiny HTTP server on loopback that answers as it is told, also as no decent server would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// What the server does with a request.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answers with a status, headers and a body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Sends these bytes as they are, and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes and then nothing more, with the connection open.
    Hang(Vec<u8>),
    /// Sends the first bytes at once, and the second one by one and over again, with a rest before each.
    Drip(Vec<u8>, Vec<u8>),
    /// Sends the first bytes once and the second ones for ever.
    Endless(Vec<u8>, Vec<u8>),
}

impl Act {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Act {
        Act::Answer(status, vec![("Content-Type", "application/json".to_owned())], body.into().into_bytes())
    }

    pub(crate) fn with_header(self, name: &'static str, value: &str) -> Act {
        match self {
            Act::Answer(status, mut headers, body) => {
                headers.push((name, value.to_owned()));
                Act::Answer(status, headers, body)
            }
            other => other,
        }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn last_message(&self) -> &str {
        let messages = self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default()
    }
}

/// The server; it ends when it is dropped.
pub(crate) struct Loopback {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    most_at_once: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Loopback {
    /// A server that does the acts one after another, and the last one ever after.
    pub(crate) fn script(acts: Vec<Act>) -> Loopback {
        Loopback::new(move |index, _| acts[index.min(acts.len() - 1)].clone())
    }

    /// A server that decides by the number of the request, from 0, and the request.
    pub(crate) fn new(decide: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Loopback {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Loopback { address, seen: Arc::default(), most_at_once: Arc::default(), stop: Arc::default() };
        let (seen, stop) = (Arc::clone(&server.seen), Arc::clone(&server.stop));
        let (most_at_once, at_once) = (Arc::clone(&server.most_at_once), Arc::new(AtomicUsize::new(0)));
        let decide = Arc::new(decide);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (seen, decide) = (Arc::clone(&seen), Arc::clone(&decide));
                let (most_at_once, at_once) = (Arc::clone(&most_at_once), Arc::clone(&at_once));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    most_at_once.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let index = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    let act = decide(index, &request);
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    // A client that has gone is what most of the acts end with.
                    let _ = perform(&stream, act);
                });
            }
        });
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The most requests that were being decided on at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // One more connection wakes the thread that waits for them.
        let _ = TcpStream::connect(self.address);
    }
}

fn read_request(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut seen = Seen { path, headers, body: Value::Null };
    let length = seen.header("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.body = serde_json::from_slice(&body).unwrap();
    Some(seen)
}

fn perform(mut stream: &TcpStream, act: Act) -> std::io::Result<()> {
    match act {
        Act::Answer(status, headers, body) => {
            let mut head =
                format!("HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
            headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
            head.push_str("\r\n");
            stream.write_all(head.as_bytes())?;
            stream.write_all(&body)
        }
        Act::Bytes(bytes) => stream.write_all(&bytes),
        Act::Hang(bytes) => {
            stream.write_all(&bytes)?;
            // Nothing comes any more: this returns when the client has gone.
            stream.read(&mut [0]).map(|_| ())
        }
        Act::Drip(first, drops) => {
            stream.write_all(&first)?;
            for drop in drops.iter().cycle() {
                std::thread::sleep(Duration::from_millis(5));
                stream.write_all(&[*drop])?;
            }
            Ok(())
        }
        Act::Endless(first, chunk) => {
            stream.write_all(&first)?;
            loop {
                stream.write_all(&chunk)?;
            }
        }
    }
}
