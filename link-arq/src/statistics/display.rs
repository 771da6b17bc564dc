// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A snapshot for people: `{}` in one line, `{:#}` as a table.

use std::fmt;

use arq_proto::{LaneId, Probability, Reliability};
use arq_tokio::PathInfo;
use zenoh_protocol::core::Priority;

use super::{
    human::{Bytes, Time},
    AssociationStats,
};

impl fmt::Display for AssociationStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            self.table(f)
        } else {
            self.line(f)
        }
    }
}

impl AssociationStats {
    /// `src` without what stands behind its `?`.
    #[must_use]
    pub fn src_address(&self) -> String {
        format!("{}/{}", self.src.protocol(), self.src.address())
    }

    /// `dst` without what stands behind its `?`.
    #[must_use]
    pub fn dst_address(&self) -> String {
        format!("{}/{}", self.dst.protocol(), self.dst.address())
    }

    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        write!(f, "{} -> {} for {}: ", self.src_address(), self.dst_address(), Time(self.age))?;
        write!(f, "rtt {} (min {}, ", Time(s.srtt), Time(s.min_rtt))?;
        write!(f, "var {}), loss at most {} out, ", Time(s.rtt_variation), Percent(s.loss))?;
        write!(f, "{} in, runs of {:.1}; ", Percent(s.reverse_loss), self.loss_run())?;
        write!(f, "sent {} in {} packets, ", Bytes(s.bytes_sent), s.packets_sent)?;
        write!(f, "{} lost ({} wrongly), ", s.packets_lost, s.packets_spuriously_lost)?;
        write!(f, "{} chunks again, {} bundled, ", s.chunks_retransmitted, s.chunks_bundled)?;
        write!(f, "{} parity, ", s.repair_symbols_sent)?;
        write!(f, "{} expired; ", s.messages_expired)?;
        write!(f, "received {} in {} packets, ", Bytes(s.bytes_received), s.packets_received)?;
        write!(f, "{} of {} parity used; ", s.chunks_recovered, s.repair_symbols_received)?;
        write!(f, "window {}, ", Bytes(s.window_bytes))?;
        write!(f, "rate {}/s, ", Bytes(s.pacing_bytes_per_sec))?;
        write!(f, "queue {} for {}", Bytes(s.queued_bytes), Time(s.queue_age))
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        writeln!(
            f,
            "{} -> {}, open for {}",
            self.src_address(),
            self.dst_address(),
            Time(self.age)
        )?;
        write!(f, "  round trip  {} smoothed, ", Time(s.srtt))?;
        writeln!(f, "{} least, {} variation", Time(s.min_rtt), Time(s.rtt_variation))?;
        write!(f, "  loss        at most {} out, ", Percent(s.loss))?;
        writeln!(f, "{} in, runs of {:.1} packets", Percent(s.reverse_loss), self.loss_run())?;
        write!(f, "  sent        {} in {} packets, ", Bytes(s.bytes_sent), s.packets_sent)?;
        write!(f, "{} lost ({} wrongly), ", s.packets_lost, s.packets_spuriously_lost)?;
        write!(f, "{} chunks again, {} bundled, ", s.chunks_retransmitted, s.chunks_bundled)?;
        writeln!(f, "{} tails probed", s.ptos)?;
        write!(f, "  received    {} in {} packets, ", Bytes(s.bytes_received), s.packets_received)?;
        writeln!(f, "{} for nothing, {} dropped", s.chunks_duplicate, s.datagrams_dropped)?;
        write!(f, "  parity      {} sent, ", s.repair_symbols_sent)?;
        write!(f, "{} received, ", s.repair_symbols_received)?;
        writeln!(f, "{} chunks recovered", s.chunks_recovered)?;
        write!(f, "  window      {}, ", Bytes(s.window_bytes))?;
        write!(f, "{} in flight, ", Bytes(s.in_flight_bytes))?;
        writeln!(f, "rate {}/s", Bytes(s.pacing_bytes_per_sec))?;
        write!(f, "  queue       {}, oldest {}, ", Bytes(s.queued_bytes), Time(s.queue_age))?;
        write!(f, "{} kept for sending, ", Bytes(s.send_buffer_bytes))?;
        writeln!(f, "{} to be read", Bytes(s.receive_buffer_bytes))?;
        write!(f, "  batches    ")?;
        for (name, lane) in self.used_lanes() {
            write!(f, " {name} {} out {} in;", lane.messages_sent, lane.messages_delivered)?;
        }
        write!(f, " {} expired", s.messages_expired)?;
        self.paths.iter().try_for_each(|path| path_line(f, path))
    }

    fn loss_run(&self) -> f64 {
        f64::from(self.stats.loss_run_hundredths) / 100.0
    }

    /// The lanes that have carried something, by name.
    fn used_lanes(&self) -> impl Iterator<Item = (String, &arq_proto::LaneStats)> + '_ {
        LaneId::all().zip(&self.stats.lanes).filter(|(_, lane)| **lane != Default::default()).map(
            |(id, lane)| {
                let kind = match id.reliability() {
                    Reliability::Reliable => "",
                    Reliability::BestEffort => " best effort",
                };
                (format!("{}{kind}", priority_name(id)), lane)
            },
        )
    }
}

fn path_line(f: &mut fmt::Formatter<'_>, path: &PathInfo) -> fmt::Result {
    let stats = &path.stats;
    let number = stats.number.to_string();
    let name = path.interface.as_deref().unwrap_or(&number);
    write!(f, "\n  path {name:<6} {}, {} smoothed, ", stats.state, Time(stats.srtt))?;
    write!(f, "loss at most {}, {} out, ", Percent(stats.loss), Bytes(stats.bytes_sent))?;
    write!(f, "{} in, silent {} times, ", Bytes(stats.bytes_received), stats.silences)?;
    write!(f, "{} in all", Time(stats.silent_time))
}

/// What zenoh calls the priority of a lane.
pub(crate) fn priority_name(lane: LaneId) -> String {
    Priority::try_from(lane.priority()).unwrap_or_default().to_string()
}

/// A share with one digit.
struct Percent(Probability);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0.as_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use arq_proto::Stats;

    use super::*;

    fn snapshot() -> AssociationStats {
        let mut stats = Stats::default();
        stats.srtt = Duration::from_micros(20_130);
        stats.min_rtt = Duration::from_micros(20_010);
        stats.rtt_variation = Duration::from_micros(120);
        stats.loss = Probability::from_ppm(102_000);
        stats.reverse_loss = Probability::from_ppm(10_000);
        stats.loss_run_hundredths = 230;
        stats.window_bytes = 65_536;
        stats.in_flight_bytes = 12_000;
        stats.pacing_bytes_per_sec = 12_345_678;
        stats.queued_bytes = 1_200;
        stats.queue_age = Duration::from_millis(3);
        stats.send_buffer_bytes = 13_200;
        stats.receive_buffer_bytes = 500;
        stats.packets_sent = 1_034;
        stats.bytes_sent = 1_200_000;
        stats.packets_received = 90;
        stats.bytes_received = 7_000;
        stats.packets_lost = 102;
        stats.packets_spuriously_lost = 3;
        stats.chunks_retransmitted = 98;
        stats.chunks_bundled = 12;
        stats.chunks_duplicate = 4;
        stats.repair_symbols_sent = 441;
        stats.repair_symbols_received = 5;
        stats.chunks_recovered = 2;
        stats.ptos = 6;
        stats.datagrams_dropped = 1;
        stats.messages_expired = 8;
        (stats.lanes[10].messages_sent, stats.lanes[10].messages_delivered) = (50, 9);
        stats.lanes[3].messages_sent = 20;
        AssociationStats {
            id: 3,
            src: "arq/127.0.0.1:40000".parse().unwrap(),
            dst: "arq/127.0.0.1:7447?rel=1".parse().unwrap(),
            age: Duration::from_millis(12_340),
            opened_at: SystemTime::UNIX_EPOCH,
            security: "none",
            peer: None,
            certificate_expires: None,
            stats,
            paths: Vec::new(),
        }
    }

    #[test]
    fn in_one_line() {
        assert_eq!(
            snapshot().to_string(),
            "arq/127.0.0.1:40000 -> arq/127.0.0.1:7447 for 12.3 s: rtt 20.1 ms (min 20.0 ms, \
             var 0.12 ms), loss at most 10.2 % out, 1.0 % in, runs of 2.3; sent 1.2 MB in 1034 \
             packets, 102 lost (3 wrongly), 98 chunks again, 12 bundled, 441 parity, 8 expired; \
             received 7.0 kB in 90 packets, 2 of 5 parity used; window 65.5 kB, rate 12.3 MB/s, \
             queue 1.2 kB for 3.00 ms"
        );
    }

    #[test]
    fn as_a_table() {
        let table = format!("{:#}", snapshot());
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 9, "{table}");
        assert_eq!(lines[0], "arq/127.0.0.1:40000 -> arq/127.0.0.1:7447, open for 12.3 s");
        assert_eq!(lines[1], "  round trip  20.1 ms smoothed, 20.0 ms least, 0.12 ms variation");
        assert_eq!(
            lines[8],
            "  batches     real-time best effort 20 out 0 in; data 50 out 9 in; 8 expired"
        );
    }

    #[test]
    fn a_link_over_several_interfaces_has_a_line_for_each_path() {
        let path = crate::statistics::test_path();
        let (bytes, state) = (Bytes(path.stats.bytes_sent).to_string(), path.stats.state);
        let table = format!("{:#}", AssociationStats { paths: vec![path], ..snapshot() });
        let line = table.lines().last().unwrap();
        assert!(line.starts_with(&format!("  path 0      {state}, ")), "{line}");
        assert!(line.contains(&format!(", {bytes} out, ")), "{line}");
    }
}
