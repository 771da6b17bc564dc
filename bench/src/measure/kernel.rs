// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do both kernels get what a link asks for, and their own settings back afterwards?

use std::collections::BTreeMap;

use arq_report::opponent::Opponent;
use netlab::{Host, LabError};

use super::MeasureError;

/// What the kernel learns of the path from one link must not help or harm the next. Stays as it is: a connection that
/// outlives its cell would tell after all.
const NO_METRICS: &str = "net.ipv4.tcp_no_metrics_save";
const DEFAULT_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE_CONTROLS: &str = "net.ipv4.tcp_available_congestion_control";

/// What is to be put back.
#[derive(Debug, Default)]
pub(super) struct KernelSettings {
    /// Host, name, value.
    parameters: Vec<(usize, String, String)>,
    /// Host, congestion control.
    controls: Vec<(usize, String)>,
}

impl KernelSettings {
    /// Sets what the links ask for; if that fails, everything is as it was.
    pub(super) fn apply(hosts: [&Host; 2], opponents: &[&Opponent]) -> Result<Self, MeasureError> {
        let wanted = Wanted::of(opponents)?;
        let mut settings = Self::default();
        match settings.change(hosts, &wanted) {
            Ok(()) => Ok(settings),
            Err(e) => {
                settings.restore(hosts)?;
                Err(e)
            }
        }
    }

    fn change(&mut self, hosts: [&Host; 2], wanted: &Wanted<'_>) -> Result<(), MeasureError> {
        for (index, host) in hosts.into_iter().enumerate() {
            host.sysctl(NO_METRICS, "1")?;
            for (name, (value, link)) in &wanted.parameters {
                let before = read(host, index, name)
                    .map_err(|error| unless_absent(error, host, name, link))?;
                self.parameters.push((index, (*name).to_owned(), before));
                host.sysctl(name, value)?;
            }
            if let Some((control, _)) = wanted.control {
                self.controls.push((index, read(host, index, DEFAULT_CONTROL)?));
                set_control(host, index, control)
                    .map_err(|error| unless_lacking(error, host, index, control))?;
            }
        }
        Ok(())
    }

    /// Puts everything back.
    pub(super) fn restore(self, hosts: [&Host; 2]) -> Result<(), MeasureError> {
        for (host, name, value) in &self.parameters {
            hosts[*host].sysctl(name, value)?;
        }
        for (host, control) in &self.controls {
            set_control(hosts[*host], *host, control)?;
        }
        Ok(())
    }
}

/// What all links of a cell ask for, and which asked.
#[derive(Debug, Default)]
struct Wanted<'a> {
    parameters: BTreeMap<&'a str, (&'a str, &'a str)>,
    control: Option<(&'a str, &'a str)>,
}

impl<'a> Wanted<'a> {
    fn of(opponents: &[&'a Opponent]) -> Result<Self, MeasureError> {
        let mut wanted = Self::default();
        for opponent in opponents {
            let link = opponent.name.as_str();
            for (name, value) in &opponent.sysctl {
                let asked = wanted.parameters.entry(name).or_insert((value, link));
                agree(*asked, (value, link), name)?;
            }
            if let Some(control) = &opponent.tcp_congestion_control {
                let asked = wanted.control.get_or_insert((control, link));
                agree(*asked, (control, link), "congestion control")?;
            }
        }
        Ok(wanted)
    }
}

fn agree(asked: (&str, &str), asks: (&str, &str), setting: &str) -> Result<(), MeasureError> {
    if asked.0 == asks.0 {
        return Ok(());
    }
    Err(MeasureError::Conflict {
        first: asked.1.to_owned(),
        second: asks.1.to_owned(),
        setting: setting.to_owned(),
    })
}

/// Towards the other host, and towards the host itself for a cell on the loopback.
fn set_control(host: &Host, index: usize, control: &str) -> Result<(), MeasureError> {
    host.set_tcp_congestion_control(control)?;
    let address = host.ipv4();
    let route = format!(
        "route replace local {address} dev lo table local scope host src {address} congctl {control}"
    );
    host.run("ip", &route.split(' ').collect::<Vec<_>>())
        .map_err(|error| failed("congestion control", index, "set", &error))?;
    Ok(())
}

/// A control that the kernel does not have is the reason, whatever the tool said. Asked only now: being asked for it
/// is what makes a kernel load its module, where it may.
fn unless_lacking(error: MeasureError, host: &Host, index: usize, control: &str) -> MeasureError {
    match read(host, index, AVAILABLE_CONTROLS) {
        Ok(available) if !available.split(' ').any(|name| name == control) => {
            MeasureError::NoCongestionControl { control: control.to_owned(), available }
        }
        _ => error,
    }
}

/// A parameter that the kernel does not have is the reason, whatever the tool said and in whose language.
fn unless_absent(error: MeasureError, host: &Host, name: &str, link: &str) -> MeasureError {
    const ABSENT: &str = "absent";
    let look = "test -e \"$1\" || printf %s \"$2\"";
    let looked = host.run("sh", &["-c", look, "look", &path(name), ABSENT]);
    match looked {
        Ok(found) if found == ABSENT => {
            MeasureError::NoKernelParameter { parameter: name.to_owned(), link: link.to_owned() }
        }
        _ => error,
    }
}

/// A kernel parameter of a host.
fn read(host: &Host, index: usize, name: &str) -> Result<String, MeasureError> {
    let printed = host.run("cat", &[&path(name)]);
    let value = printed.map_err(|error| failed(name, index, "read", &error))?;
    Ok(value.trim().to_owned())
}

/// Where a kernel parameter is; a host sees its own.
fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn failed(setting: &str, host: usize, done: &'static str, error: &LabError) -> MeasureError {
    MeasureError::Kernel { setting: setting.to_owned(), host, done, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opponent(name: &str, control: Option<&str>, sack: Option<&str>) -> Opponent {
        let mut opponent: Opponent =
            serde_json::from_str(&format!(r#"{{"name":"{name}","about":"a link"}}"#)).unwrap();
        opponent.tcp_congestion_control = control.map(str::to_owned);
        let sack = sack.map(|value| ("net.ipv4.tcp_sack".to_owned(), value.to_owned()));
        opponent.sysctl = sack.into_iter().collect();
        opponent
    }

    #[test]
    fn links_that_agree_share_a_kernel_and_others_are_refused_by_name() {
        let (bbr, cubic) = (opponent("b", Some("bbr"), None), opponent("c", Some("cubic"), None));
        let (plain, sack) = (opponent("p", None, None), opponent("s", Some("bbr"), Some("0")));
        let wanted = Wanted::of(&[&bbr, &plain, &sack]).unwrap();
        assert_eq!(wanted.control, Some(("bbr", "b")));
        assert_eq!(wanted.parameters["net.ipv4.tcp_sack"], ("0", "s"));
        let error = Wanted::of(&[&bbr, &cubic]).unwrap_err().to_string();
        assert!(error.contains("`b` and `c`") && error.contains("congestion control"), "{error}");
        let other = opponent("o", None, Some("1"));
        assert!(Wanted::of(&[&sack, &other]).unwrap_err().to_string().contains("tcp_sack"));
    }
}
