// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What are the two processes told, and is it something that can be measured?

use arq_report::opponent::{Carrier, Opponent};
use arq_report::scenario::flow::{CongestionControl, Flow, Pattern};
use netlab::Host;

use crate::traffic::{Link, Load, PlannedFlow};

use super::certificates::Certificates;
use super::{Job, MeasureError};

/// A cell before it begins.
pub(super) struct Plan<'a> {
    pub(super) load: Load,
    /// The links that take part, that under test first.
    pub(super) opponents: Vec<&'a Opponent>,
    /// The files live as long as the cell.
    _certificates: Vec<Option<Certificates>>,
}

impl<'a> Plan<'a> {
    /// Refuses what cannot be measured; `listener` is the subscriber's host.
    pub(super) fn of(job: &Job<'a>, listener: &Host) -> Result<Self, MeasureError> {
        let mut opponents = vec![job.opponent];
        let flows = job
            .flows
            .iter()
            .map(|flow| {
                let link = link_of(job, flow, &mut opponents)?;
                check(flow, opponents[link])?;
                Ok(PlannedFlow { flow: flow.clone(), link })
            })
            .collect::<Result<Vec<_>, MeasureError>>()?;
        let addresses = [listener.ipv4().to_string(), listener.ipv6().to_string()];
        let certificates = opponents.iter().map(|opponent| {
            let make = || Certificates::make_chain(addresses.to_vec(), opponent.certificates);
            is_encrypted(opponent).then(make).transpose()
        });
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let links = opponents.iter().zip(&certificates).zip(job.port..);
        let links = links.map(|((opponent, certificates), port)| {
            link(opponent, &addresses[0], port, certificates.as_ref())
        });
        let load = Load {
            links: links.collect(),
            flows,
            seed: job.seed,
            open: job.patience.open,
            grace: job.patience.grace,
            longest: job.patience.longest,
        };
        Ok(Self { load, opponents, _certificates: certificates })
    }
}

/// The index of the link of a flow among those that take part; a new one is added.
fn link_of<'a>(
    job: &Job<'a>,
    flow: &Flow,
    opponents: &mut Vec<&'a Opponent>,
) -> Result<usize, MeasureError> {
    let Some(name) = &flow.link else { return Ok(0) };
    let taking_part = opponents.iter().position(|opponent| opponent.name == *name);
    taking_part.map_or_else(
        || {
            let found = job.opponents.iter().find(|opponent| opponent.name == *name);
            opponents.push(found.ok_or_else(|| MeasureError::UnknownLink {
                flow: flow.name.clone(),
                link: name.clone(),
            })?);
            Ok(opponents.len() - 1)
        },
        Ok,
    )
}

fn check(flow: &Flow, opponent: &Opponent) -> Result<(), MeasureError> {
    if flow.payload_bytes < Load::MIN_PAYLOAD_BYTES {
        return Err(MeasureError::payload(&flow.name, flow.payload_bytes));
    }
    if opponent.carrier == Carrier::Kcp {
        if matches!(flow.pattern, Pattern::Opening { .. }) {
            return Err(MeasureError::flow(
                &flow.name,
                "measures the opening of zenoh sessions, and KCP has none; leave it out of this scenario",
            ));
        }
        if flow.congestion_control == CongestionControl::Drop {
            return Err(MeasureError::flow(
                &flow.name,
                "wants messages dropped when the link is busy, which KCP cannot; use congestion_control = \"block\"",
            ));
        }
    }
    Ok(())
}

fn link(
    opponent: &Opponent,
    address: &str,
    port: u16,
    certificates: Option<&Certificates>,
) -> Link {
    let endpoint = match opponent.endpoint.as_str() {
        "" => "{host}:{port}",
        endpoint => endpoint,
    };
    let mut zenoh = opponent.zenoh.clone();
    if let Some(certificates) = certificates {
        zenoh.extend(certificates.zenoh_keys());
    }
    Link {
        carrier: opponent.carrier,
        endpoint: endpoint.replace("{host}", address).replace("{port}", &port.to_string()),
        connect: opponent.connect.clone(),
        zenoh,
    }
}

/// Whether the listener needs a certificate. `arq/` would take one wherever there is one.
fn is_encrypted(opponent: &Opponent) -> bool {
    let endpoint = &opponent.endpoint;
    let takes = match endpoint.split('/').next() {
        Some("tls" | "quic") => true,
        _ => endpoint.contains("security=tls"),
    };
    opponent.carrier == Carrier::Zenoh && takes
}
