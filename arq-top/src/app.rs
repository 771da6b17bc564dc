// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The live view: looks again and again on one thread, keys and the screen on another.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;

use crate::figures::{Link, Order};
use crate::history::History;
use crate::scrape::Endpoint;
use crate::view::{draw, Screen};

/// One look at the process.
type Look = Result<Vec<Link>, String>;

/// How soon a look is on the screen.
const FRAME: Duration = Duration::from_millis(100);

/// Shows the links until the user has seen enough.
///
/// # Errors
/// What the terminal answers.
pub(crate) fn run(
    endpoint: &Endpoint,
    interval: Duration,
    order: Order,
    first: Vec<Link>,
) -> io::Result<()> {
    let (sender, looks) = channel();
    let watched = endpoint.clone();
    thread::spawn(move || watch(&watched, interval, &sender));
    let ended = Arc::<AtomicBool>::default();
    for signal in TERM_SIGNALS {
        flag::register(*signal, ended.clone())?;
    }
    let history = History::new(first, order);
    let result = ratatui::try_init().and_then(|mut terminal| {
        show(&mut terminal, &endpoint.to_string(), history, &looks, &ended)
    });
    // A terminal that could be prepared only in part, too.
    ratatui::restore();
    result
}

/// A slow or silent process must not make the keys slow.
fn watch(endpoint: &Endpoint, interval: Duration, looks: &Sender<Look>) {
    loop {
        thread::sleep(interval);
        if looks.send(endpoint.scrape()).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    endpoint: &str,
    mut history: History,
    looks: &Receiver<Look>,
    ended: &AtomicBool,
) -> io::Result<()> {
    let mut trouble = None;
    let mut stale = true;
    while !ended.load(Ordering::Relaxed) {
        for links in looks.try_iter() {
            stale = true;
            match links {
                Ok(links) => {
                    history.look(links);
                    trouble = None;
                }
                Err(error) => trouble = Some(error),
            }
        }
        if stale {
            let screen = Screen { endpoint, history: &history, trouble: trouble.as_deref() };
            terminal.draw(|frame| draw(frame, &screen))?;
        }
        stale = event::poll(FRAME)?;
        if stale {
            if let Event::Key(key) = event::read()? {
                if obey(key, &mut history) == Wish::Quit {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// What a key means for the program.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Stay,
    Quit,
}

fn obey(key: KeyEvent, history: &mut History) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Stay;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
        // In raw mode the terminal itself does not obey it.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::Quit,
        KeyCode::Char('s') => history.next_order(),
        KeyCode::Up | KeyCode::Char('k') => history.select(-1),
        KeyCode::Down | KeyCode::Char('j') => history.select(1),
        KeyCode::PageUp => history.select(-10),
        KeyCode::PageDown => history.select(10),
        _ => {}
    }
    Wish::Stay
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_quit_sort_and_choose() {
        let links = (1..=3).map(|id| Link { id, ..Link::default() }).collect();
        let mut history = History::new(links, Order::Sent);
        let mut press = |code, modifiers| obey(KeyEvent::new(code, modifiers), &mut history);
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Wish::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Wish::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), Wish::Stay);
        for code in [KeyCode::Down, KeyCode::Char('j'), KeyCode::Up, KeyCode::Char('s')] {
            assert_eq!(press(code, KeyModifiers::NONE), Wish::Stay);
        }
        assert_eq!((history.order, history.selected()), (Order::Received, Some(1)));
    }
}
