// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What did one side of a link do, packet by packet? A picture of a qlog, as `arq-tokio` writes it.

use std::collections::HashSet;

use serde_json::Value;

use super::plot::figure::{Entry, Figure};
use super::plot::scale::Scale;
use super::plot::{Axis, Line, Marks, Panel, Point, Series};
use super::style::{Mark, Shape, Style, BLUE, GREEN, GREY, ORANGE, VERMILION};
use super::units::Unit;

/// Points of a series at most.
const MOST_POINTS: usize = 3_000;
/// Parts of the time in which what was sent is summed up.
const PARTS: usize = 100;

/// Why there is no picture.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("this is no qlog of a link with packets in it")]
pub struct NoPackets;

/// The picture as SVG; `origin` says below it what was drawn.
///
/// # Errors
/// If there is nothing to draw.
pub fn draw(text: &str, origin: &str) -> Result<String, NoPackets> {
    let trace = Trace::read(text);
    if trace.sent.len() + trace.again.len() + trace.repairs.len() < 2 {
        return Err(NoPackets);
    }
    Ok(trace.figure(origin).alone())
}

/// What is drawn of a qlog. Points: seconds since the begin, and a value.
#[derive(Debug, Default)]
struct Trace {
    title: String,
    /// Numbers of the packets with new chunks alone, or none.
    sent: Vec<Point>,
    /// Of those with a chunk that was sent before.
    again: Vec<Point>,
    /// Of those with a repair symbol, else.
    repairs: Vec<Point>,
    /// Of those that were declared lost, and when.
    lost: Vec<Point>,
    /// Time and bytes of each packet sent.
    lengths: Vec<(f64, f64)>,
    smoothed_rtt: Vec<Point>,
    min_rtt: Vec<Point>,
    window: Vec<Point>,
    in_flight: Vec<Point>,
    pacing_rate: Vec<Point>,
}

/// Lane, message and index of a chunk.
type Chunk = (u64, u64, u64);

impl Trace {
    /// A record that is no JSON, such as the last one of a file that is being written, is left out.
    fn read(text: &str) -> Self {
        let (mut trace, mut chunks) = (Self::default(), HashSet::new());
        for record in text.split('\u{1e}') {
            let Ok(record) = serde_json::from_str::<Value>(record) else { continue };
            if let Some(head) = record.get("trace") {
                let side = &head["vantage_point"]["type"];
                let id = &head["common_fields"]["ODCID"];
                let words = [id, side].map(|word| word.as_str().unwrap_or("?"));
                trace.title = format!("Link {}, {}", words[0], words[1]);
            }
            let (Some(ms), Some(name)) = (record["time"].as_f64(), record["name"].as_str()) else {
                continue;
            };
            trace.event(ms / 1e3, name, &record["data"], &mut chunks);
        }
        trace
    }

    fn event(&mut self, at: f64, name: &str, data: &Value, chunks: &mut HashSet<Chunk>) {
        let number = data["header"]["packet_number"].as_f64();
        let point = |value: &Value, factor: f64| Some(Point::at(at, value.as_f64()? * factor));
        match (name, number) {
            ("transport:packet_sent", Some(number)) => {
                let of = match kind(&data["frames"], chunks) {
                    Kind::New => &mut self.sent,
                    Kind::Again => &mut self.again,
                    Kind::Repair => &mut self.repairs,
                };
                of.push(Point::at(at, number));
                self.lengths.push((at, data["raw"]["length"].as_f64().unwrap_or(0.0)));
            }
            ("recovery:packet_lost", Some(number)) => self.lost.push(Point::at(at, number)),
            ("recovery:metrics_updated", _) => {
                self.smoothed_rtt.extend(point(&data["smoothed_rtt"], 1.0));
                self.min_rtt.extend(point(&data["min_rtt"], 1.0));
                self.window.extend(point(&data["congestion_window"], 1.0));
                self.in_flight.extend(point(&data["bytes_in_flight"], 1.0));
                self.pacing_rate.extend(point(&data["pacing_rate"], 1e-6));
            }
            _ => {}
        }
    }

    fn until(&self) -> f64 {
        self.lengths.last().map_or(0.0, |(at, _)| *at).max(1e-3)
    }

    /// Megabits per second, in each part of the time.
    fn rate(&self) -> Vec<Point> {
        let part = self.until() / PARTS as f64;
        let mut bits = [0.0; PARTS];
        for (at, bytes) in &self.lengths {
            bits[((at / part) as usize).min(PARTS - 1)] += bytes * 8.0;
        }
        let middle = |i: usize| (i as f64 + 0.5) * part;
        bits.iter().enumerate().map(|(i, bits)| Point::at(middle(i), bits / part / 1e6)).collect()
    }

    fn figure(&self, origin: &str) -> Figure {
        let packets = [
            dots("sent", BLUE, &self.sent),
            dots("with a chunk sent again", ORANGE, &self.again),
            dots("with a repair symbol", GREEN, &self.repairs),
            dots("declared lost", VERMILION, &self.lost),
        ];
        let lines = |name: &str, colour, line, points: &[Point]| {
            series(name, colour, line, Marks::None, &held(points, self.until()))
        };
        let rtt = [
            lines("smoothed", BLUE, Line::Solid, &self.smoothed_rtt),
            lines("least", GREY, Line::Dashed, &self.min_rtt),
        ];
        let bytes = [
            lines("congestion window", GREY, Line::Dashed, &self.window),
            lines("in flight", BLUE, Line::Solid, &self.in_flight),
        ];
        let rates = [
            lines("pacing", GREY, Line::Dashed, &self.pacing_rate),
            series("sent", BLUE, Line::Solid, Marks::None, &self.rate()),
        ];
        Figure {
            id: "qlog".into(),
            title: self.title.clone(),
            caption: format!(
                "{} packets sent, {} declared lost, shown when that was. Dashes: least round trip, congestion window, \
                 pacing rate.",
                self.lengths.len(),
                self.lost.len()
            ),
            origin: origin.to_owned(),
            alt: "Packet numbers, round trip, window and rate over time.".into(),
            legend: packets.iter().map(entry).collect(),
            panels: vec![
                self.panel("Packets", "packet number", Unit::Number, packets),
                self.panel("Round trip", "time", Unit::Milliseconds, rtt),
                self.panel("In flight, window", "bytes", Unit::Bytes, bytes),
                self.panel("Sent, pacing", "rate, Mb/s", Unit::MegabitsPerSecond, rates),
            ],
            paired: true,
        }
    }

    fn panel<const N: usize>(
        &self,
        title: &str,
        label: &str,
        unit: Unit,
        series: [Series; N],
    ) -> Panel {
        let x = Scale::Linear { from: 0.0, to: self.until() };
        let values = series.iter().flat_map(|series| &series.points).map(|point| point.y);
        let y = Scale::linear_from_zero(values);
        let axis = |label: &str, scale: Scale, unit| Axis {
            label: label.into(),
            scale,
            ticks: scale.ticks(unit),
            lost: None,
        };
        Panel {
            title: title.into(),
            x: axis("time, s", x, Unit::Seconds),
            y: axis(label, y, unit),
            series: series.into(),
            end_labels: false,
        }
    }
}

/// What a packet carries.
enum Kind {
    New,
    Again,
    Repair,
}

fn kind(frames: &Value, chunks: &mut HashSet<Chunk>) -> Kind {
    let mut kind = Kind::New;
    for frame in frames.as_array().into_iter().flatten() {
        let number = |name: &str| frame[name].as_u64().unwrap_or(0);
        match frame["frame_type"].as_str() {
            Some("stream")
                if !chunks.insert((number("stream_id"), number("message"), number("index"))) =>
            {
                return Kind::Again;
            }
            Some("repair") => kind = Kind::Repair,
            _ => {}
        }
    }
    kind
}

/// Only changes are written: a value holds until the next one.
fn held(points: &[Point], until: f64) -> Vec<Point> {
    let ends = points.iter().skip(1).map(|point| point.x).chain([until]);
    let both = |(point, end): (&Point, f64)| [point.clone(), Point::at(end.max(point.x), point.y)];
    points.iter().zip(ends).flat_map(both).collect()
}

fn dots(name: &str, colour: &'static str, points: &[Point]) -> Series {
    series(name, colour, Line::None, Marks::Dots, points)
}

fn series(name: &str, colour: &'static str, line: Line, marks: Marks, points: &[Point]) -> Series {
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    let style = Style { colour, mark: Mark { shape: Shape::Circle, filled: true } };
    let points = points.iter().step_by(every).cloned().collect();
    Series { name: name.to_owned(), style, line, marks, points }
}

fn entry(series: &Series) -> Entry {
    Entry { name: series.name.clone(), style: series.style, line: Line::None, marked: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of one chunk is lost, and repaired by a symbol and by the chunk.
    const SMALL: &str = concat!(
        "\u{1e}{\"qlog_version\":\"0.3\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\"common_fields\":{\"ODCID\":\"ab\"}}}\n",
        "\u{1e}{\"time\":0,\"name\":\"transport:packet_sent\",\"data\":{\"header\":{\"packet_number\":0},\"raw\":{\"length\":1000},",
        "\"frames\":[{\"frame_type\":\"stream\",\"stream_id\":10,\"message\":0,\"index\":0}]}}\n",
        "\u{1e}{\"time\":10,\"name\":\"transport:packet_sent\",\"data\":{\"header\":{\"packet_number\":1},\"raw\":{\"length\":1000},",
        "\"frames\":[{\"frame_type\":\"repair\",\"stream_id\":10,\"message\":0,\"index\":0}]}}\n",
        "\u{1e}{\"time\":20,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_number\":0}}}\n",
        "\u{1e}{\"time\":20,\"name\":\"transport:packet_sent\",\"data\":{\"header\":{\"packet_number\":2},\"raw\":{\"length\":1000},",
        "\"frames\":[{\"frame_type\":\"ping\"},{\"frame_type\":\"stream\",\"stream_id\":10,\"message\":0,\"index\":0}]}}\n",
        "\u{1e}{\"time\":30,\"name\":\"recovery:metrics_updated\",\"data\":{\"smoothed_rtt\":10.5,\"congestion_window\":12000,",
        "\"pacing_rate\":8000000}}\n",
        "\u{1e}{\"time\":40,\"name\":\"transport:pack",
    );

    #[test]
    fn packets_are_told_apart_by_what_they_carry() {
        let trace = Trace::read(SMALL);
        let numbers = |points: &[Point]| points.iter().map(|point| point.y).collect::<Vec<_>>();
        assert_eq!(numbers(&trace.sent), [0.0]);
        assert_eq!(numbers(&trace.repairs), [1.0]);
        assert_eq!(numbers(&trace.again), [2.0]);
        assert_eq!(numbers(&trace.lost), [0.0]);
        assert_eq!((trace.smoothed_rtt[0].x, trace.smoothed_rtt[0].y), (0.03, 10.5));
        assert_eq!(trace.pacing_rate[0].y, 8.0);
        let sent: f64 = trace.rate().iter().map(|part| part.y * trace.until() / 100.0).sum();
        assert!((sent - 0.024).abs() < 1e-9, "{sent} Mb");
    }

    #[test]
    fn a_picture_names_what_it_shows() {
        let svg = draw(SMALL, "ab_client.sqlog").expect("a picture");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"));
        for words in ["Link ab, client", "declared lost", "3 packets sent, 1", "ab_client.sqlog"] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(draw("{}", ""), Err(NoPackets));
    }
}
