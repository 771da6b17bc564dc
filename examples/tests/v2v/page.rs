// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The demo as a whole: vehicles on two emulated radios, and its page in a real browser.

use arq_bench::emulator::Network;
use serde_json::Value;

use super::browser::Browser;
use super::running::{output, Running, V2V_DEMO};

/// Whether this machine lets us make namespaces; says so if not.
fn has_namespaces() -> bool {
    match Network::new(2) {
        Ok(_) => true,
        Err(e) => {
            eprintln!("\n*** SKIPPED, no emulated network here: {e}\n");
            false
        }
    }
}

/// A demo with four vehicles, and where its page is.
fn demo() -> (Running, String) {
    let arguments = ["--vehicles", "4", "--seed", "3", "--page", "127.0.0.1:0"];
    let mut demo = Running::start(V2V_DEMO, &arguments);
    let line = demo.line("The page is at ").expect("the demo runs");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (demo, url)
}

#[test]
fn the_demo_ends_by_itself_and_sums_up_both_links() {
    if !has_namespaces() {
        return;
    }
    let arguments = ["--vehicles", "3", "--page", "127.0.0.1:0", "--duration", "12"];
    let (code, said, complained) = output(V2V_DEMO, &arguments);
    assert_eq!(code, Some(0), "{complained}");
    for words in ["The page is at http://127.0.0.1:", "arq: ", "tcp: ", "beacons late or lost"] {
        assert!(said.contains(words), "no {words} in:\n{said}");
    }
}

#[test]
fn the_page_shows_what_the_monitors_say_and_its_sliders_act() {
    if !has_namespaces() {
        return;
    }
    let Some(mut browser) = Browser::start() else {
        eprintln!("\n*** SKIPPED, no Chromium on this machine: apt-get install chromium\n");
        return;
    };
    let (mut demo, url) = demo();
    browser.resize(1280, 900);
    browser.open(&url);
    let both =
        "typeof show === 'function' && [0, 1].every((i) => byId(`link-${i}`).dataset.report > 20)";
    assert!(browser.becomes(both), "both monitors report");

    figures_are_the_monitors(&mut browser);
    updates_are_often(&mut browser);
    sliders_act_on_both_radios(&mut browser);
    wrong_figures_are_refused(&mut browser);
    fits(&mut browser, 1280);
    browser.resize(390, 844);
    fits(&mut browser, 390);
    // A page without anything on it is smaller as a picture.
    assert!(browser.screenshot().len() > 40_000, "the page is drawn");

    demo.interrupt();
    assert_eq!(demo.wait(), Some(0), "Ctrl-C ends the demo in order");
    assert!(browser.becomes("!byId('gone').hidden"), "the page says that the demo has ended");
    // What this test itself asked wrongly, and the views that have ended.
    let expected = ["/api/radio", "/nowhere", "/api/views"];
    let is_new = |complaint: &&String| !expected.iter().any(|path| complaint.contains(path));
    let others: Vec<_> = browser.complaints().iter().filter(is_new).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// Every figure on the page is that of the report which the page says it shows.
fn figures_are_the_monitors(browser: &mut Browser) {
    let shown = browser.value(
        "new Promise((done) => {
            const views = new EventSource('/api/views');
            views.addEventListener('message', (event) => {
                const view = JSON.parse(event.data);
                show(view);
                views.close();
                done(view.links.map((link, i) => [...byId(`link-${i}`).querySelectorAll('[data-shown]')]
                    .map((e) => [e.dataset.shown, e.textContent, link.report.shown[e.dataset.shown]])));
            });
        })",
    );
    let links = shown.as_array().unwrap();
    assert_eq!(links.len(), 2);
    for figure in links.iter().flat_map(|link| link.as_array().unwrap()) {
        assert_eq!(figure[1], figure[2], "{}", figure[0]);
        assert_ne!(figure[1], Value::from(""), "{} is empty", figure[0]);
    }
}

fn updates_are_often(browser: &mut Browser) {
    let took_ms = browser.value(
        "new Promise((done) => {
            const [began, first] = [performance.now(), Number(document.body.dataset.views)];
            const look = () => document.body.dataset.views - first >= 20
                ? done(performance.now() - began) : setTimeout(look, 5);
            look();
        })",
    );
    let took_ms = took_ms.as_f64().unwrap();
    assert!(took_ms < 4_000.0, "20 updates took {took_ms} ms: fewer than five a second");
}

/// The nearest vehicle loses what distance does not, so what it loses is what the slider says.
fn sliders_act_on_both_radios(browser: &mut Browser) {
    browser.value("window.seen = null; new EventSource('/api/views').onmessage = (e) => { seen = JSON.parse(e.data); }; 1");
    browser.value(
        "for (const [id, value] of [['drop', 40], ['burst', 4], ['delay', 20]]) {
            byId(id).value = value;
            byId(id).dispatchEvent(new Event('input'));
        } 1",
    );
    let acts = "seen && seen.added.drop_percent === 40 && seen.vehicles.slice(1).every((v) =>
        v.loss_percent >= 40 && v.burst_packets >= 4 && v.delay_ms >= 22)";
    assert!(browser.becomes(acts), "the radio follows the sliders");
    let lost =
        "seen.links.every((link) => link.radio.packets_per_s > 0 && link.radio.lost_percent > 20)";
    assert!(browser.becomes(lost), "packets are lost below both links");
    assert_eq!(browser.value("byId('drop-value').textContent"), "40 %");
}

fn wrong_figures_are_refused(browser: &mut Browser) {
    let refused = |body: &str| {
        format!("fetch('/api/radio', {{ method: 'POST', body: {body:?} }}).then(async (a) => [a.status, (await a.json()).error])")
    };
    for (body, words) in [
        (r#"{"drop_percent":99,"burst_packets":1,"delay_ms":0}"#, "drop_percent of 99"),
        (r#"{"drop_percent":1}"#, "burst_packets"),
        ("nonsense", "expected"),
    ] {
        let answer = browser.value(&refused(body));
        assert_eq!(answer[0], 400, "{answer}");
        assert!(answer[1].as_str().unwrap().contains(words), "{answer}");
    }
    let answer = browser.value("fetch('/nowhere').then((answer) => answer.status)");
    assert_eq!(answer, 404);
}

fn fits(browser: &mut Browser, width: u32) {
    let fits = format!(
        "document.documentElement.scrollWidth <= {width} && byId('map').clientWidth > {width} / 3"
    );
    assert!(browser.becomes(&fits), "the page fits a width of {width}");
}
