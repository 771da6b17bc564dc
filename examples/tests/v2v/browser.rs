// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! A headless Chromium, spoken to in the DevTools protocol (a few of its commands over one web socket).

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{json, Value};
use tungstenite::{Message, WebSocket};

/// An answer takes no longer on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    asked: u64,
    /// What went wrong in the page.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one with an empty tab; `None` when there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let program = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| Command::new(name).arg("--version").output().is_ok())?;
        let mut command = Command::new(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url =
            words.find_map(|line| line.strip_prefix("DevTools listening on ").map(str::to_owned));
        let url = url.expect("Chromium says where it listens");
        // A pipe that nobody empties would hold it up.
        std::thread::spawn(move || words.for_each(drop));
        let address = url.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(url.as_str(), stream).unwrap();
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser = Self { child, socket, session, asked: 0, complaints, _profile: profile };
        browser.open_tab();
        Some(browser)
    }

    fn open_tab(&mut self) {
        let tab = self.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": tab["targetId"], "flatten": true });
        let attached = self.ask("Target.attachToTarget", attach);
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        self.ask("Runtime.enable", json!({}));
        self.ask("Log.enable", json!({}));
        self.ask("Page.enable", json!({}));
    }

    /// A desktop or a phone.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let mobile = width < 600;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits in the page until the expression is true; whether it became so in time.
    pub(crate) fn becomes(&mut self, expression: &str) -> bool {
        let limit_ms = PATIENCE.as_millis() / 2;
        let wait = format!(
            "new Promise((done) => {{
                const end = performance.now() + {limit_ms};
                const look = () => ({expression}) ? done(true)
                    : performance.now() > end ? done(false) : setTimeout(look, 20);
                look();
            }})"
        );
        self.value(&wait) == Value::Bool(true)
    }

    /// A picture of the whole page, PNG in base64.
    pub(crate) fn screenshot(&mut self) -> String {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        self.ask("Page.captureScreenshot", whole)["data"].as_str().unwrap().to_owned()
    }

    /// Exceptions, errors on the console, and requests that failed.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut question = json!({ "id": self.asked, "method": method, "params": params });
        if !self.session.is_empty() {
            question["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::Text(question.to_string())).unwrap();
        loop {
            let answer = self.socket.read().expect("Chromium answers");
            let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            if answer["id"] == json!(self.asked) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            let is_error = answer["params"]["entry"]["level"] == "error"
                || answer["params"]["type"] == "error"
                || answer["method"] == "Runtime.exceptionThrown";
            if is_error {
                self.complaints.push(answer.to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
