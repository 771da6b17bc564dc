// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The demo as a whole: vehicles on two emulated radios, and its page in a real browser.

use std::io::{self, Write};

use netlab::Network;
use serde_json::Value;

use super::browser::Browser;
use super::support::{output, Running};
use super::V2V_DEMO;

/// Past the capture of the test harness, so that nobody takes a skipped test for a passed one.
fn skipped(why: &str) {
    let _ = writeln!(io::stderr(), "\n*** SKIPPED a test of v2v_demo: {why}\n");
    assert!(
        std::env::var_os("ARQ_REQUIRE_LAB").is_none(),
        "ARQ_REQUIRE_LAB is set, so a skipped test is a failed one"
    );
}

/// Whether this machine lets us make namespaces; says so if not.
fn has_namespaces() -> bool {
    let network = Network::new(2);
    if let Err(e) = &network {
        skipped(&format!("no emulated network here: {e}"));
    }
    network.is_ok()
}

/// A demo with four vehicles of two radios each, and where its page is.
fn demo() -> (Running, String) {
    let arguments = ["--vehicles", "4", "--seed", "3", "--page", "127.0.0.1:0", "--radios", "2"];
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
    let arguments = ["--vehicles", "9", "--page", "127.0.0.1:0", "--duration", "15"];
    let (code, said, complained) = output(V2V_DEMO, &arguments);
    assert_eq!(code, Some(0), "{complained}");
    for words in ["The page is at http://127.0.0.1:", "arq: ", "tcp: ", "beacons late or lost"] {
        assert!(said.contains(words), "no {words} in:\n{said}");
    }
    let [missed, all] = missed(&said, "arq: ");
    assert!(all > 0 && missed < all, "nothing came over arq/: {said}");
}

/// How many of a link's beacons were late or lost, of how many.
fn missed(said: &str, link: &str) -> [u64; 2] {
    // "arq: 3 of 75 beacons late or lost, ..."
    let sum = said.lines().find_map(|line| line.strip_prefix(link)).expect("the link's sum");
    [0, 2].map(|word| sum.split(' ').nth(word).unwrap().parse().unwrap())
}

#[test]
fn a_second_radio_brings_the_beacons_that_a_fade_stops() {
    if !has_namespaces() {
        return;
    }
    let share = |radios: &str| {
        let world = ["--vehicles", "9", "--page", "127.0.0.1:0", "--duration", "20", "--fades"];
        let (code, said, complained) =
            output(V2V_DEMO, &[&world[..], &["--radios", radios]].concat());
        assert_eq!(code, Some(0), "{complained}");
        let [missed, all] = missed(&said, "arq: ");
        assert!(all > 50, "{said}");
        missed as f64 / all as f64
    };
    let (one, two) = (share("1"), share("2"));
    // A fifth of the time, and a fifth of that.
    assert!(two < 0.6 * one, "{one} over one radio, {two} over two");
}

#[test]
fn the_page_shows_what_the_monitors_say_and_its_sliders_act() {
    if !has_namespaces() {
        return;
    }
    let Some(mut browser) = Browser::start() else {
        return skipped("no Chromium on this machine: apt-get install chromium");
    };
    let (mut demo, url) = demo();
    browser.resize(1280, 900);
    browser.open(&url);
    let both =
        "typeof show === 'function' && [0, 1].every((i) => byId(`link-${i}`).dataset.report > 20)";
    assert!(browser.becomes(both), "both monitors report");

    figures_are_the_monitors(&mut browser);
    let cut = "JSON.stringify(piecesOf([[1, null], [2, 5], [3, null], [4, 6], [5, 7]]))";
    assert_eq!(browser.value(cut), "[[[2,5]],[[4,6],[5,7]]]", "a trace where nobody was near");
    updates_are_often(&mut browser);
    sliders_act_on_both_radios(&mut browser);
    switches_act(&mut browser);
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
                done(view.links.map((link, i) => {
                    const section = byId(`link-${i}`);
                    const figures = [...section.querySelectorAll('[data-shown]')]
                        .map((e) => [e.dataset.shown, e.textContent, link.report.shown[e.dataset.shown]]);
                    const rows = [...section.querySelectorAll('.warnings li')].map((row) => [...row.children].map((part) => part.textContent).join(' '));
                    const warnings = link.report.shown.warnings.map((w) => `${w.vehicle} ${w.what} ${w.when}`);
                    return [...figures, ['warnings', 'as they are: ' + rows, 'as they are: ' + warnings]];
                }));
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
    assert!(browser.becomes("seen"), "views come");
    browser.value(
        "window.moved = performance.now();
        for (const [id, value] of [['drop', 40], ['burst', 4], ['delay', 20]]) {
            byId(id).value = value;
            byId(id).dispatchEvent(new Event('input'));
        } 1",
    );
    let acts = "seen && seen.added.drop_percent === 40 && seen.vehicles.slice(1).every((v) =>
        v.loss_percent >= 40 && v.burst_packets >= 4 && v.delay_ms >= 22)";
    assert!(browser.becomes(acts), "the radio follows the sliders");
    let took_ms = browser.value("performance.now() - moved").as_f64().unwrap();
    assert!(took_ms < 2_000.0, "at once, not after {took_ms} ms");
    let lost =
        "seen.links.every((link) => link.radio.packets_per_s > 0 && link.radio.lost_percent > 20)";
    assert!(browser.becomes(lost), "packets are lost below both links");
    assert_eq!(browser.value("byId('drop-value').textContent"), "40 %");
}

fn switches_act(browser: &mut Browser) {
    assert!(browser.becomes("seen.added.second && byId('second').checked"), "on from the start");
    browser.value("byId('second').click(); byId('fades').click(); 1");
    let acts = "!seen.added.second && seen.added.fades && seen.added.drop_percent === 40";
    assert!(browser.becomes(acts), "the radios follow the switches, and the sliders stay");
    browser.value("byId('fades').click(); 1");
    assert!(browser.becomes("!seen.added.fades"), "and back");
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
