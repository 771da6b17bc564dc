// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Who moves the radio with the vehicles, and gathers what both monitors say?

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::stage::{Stage, OWN};
use super::view::{LinkView, RadioUse, VehicleView, View};
use crate::v2v::clock;
use crate::v2v::monitor::Report;
use crate::v2v::radio::{Impairment, Path};
use crate::v2v::stop::Stop;
use crate::v2v::world::{World, WorldArgs};

/// Views are made so often, and the radio moves with them.
const VIEW_EVERY: Duration = Duration::from_millis(100);
/// What the radio carried is counted, and the parts are looked after, so often.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// A line is printed so often.
const PRINT_EVERY: Duration = Duration::from_secs(5);
/// A path that has changed by less keeps its emulation: per cent lost, packets, milliseconds.
const LEAST_CHANGE: f64 = 0.1;

/// What sliders and switches have set, and who waits for a change.
#[derive(Clone, Debug)]
pub struct Controls(Arc<(Mutex<Settings>, Condvar)>);

#[derive(Debug)]
struct Settings {
    added: Impairment,
    changed: bool,
}

impl Controls {
    /// To begin with.
    pub fn new(added: Impairment) -> Self {
        Self(Arc::new((Mutex::new(Settings { added, changed: true }), Condvar::new())))
    }

    /// Acts at once on both radios.
    pub fn set(&self, added: Impairment) {
        let (settings, wake) = &*self.0;
        let mut settings = settings.lock();
        *settings = Settings { added, changed: true };
        wake.notify_all();
    }

    /// Waits until that time, or for a change; what is set.
    fn wait_until(&self, due: Instant) -> Impairment {
        let (settings, wake) = &*self.0;
        let mut settings = settings.lock();
        wake.wait_while_until(&mut settings, |settings| !settings.changed, due);
        settings.changed = false;
        settings.added
    }
}

/// Moves the radios and gathers what is reported.
pub(super) struct Director {
    stages: Vec<Stage>,
    world: World,
    /// What each vehicle's radio was last set to.
    paths: Vec<Option<Path>>,
    uses: Vec<RadioUse>,
    began: Instant,
}

impl Director {
    /// Starts the parts of all stages. Each link opens its sessions over the radio as it is, with the same chances.
    pub(super) fn start(
        stages: Vec<Stage>,
        world: WorldArgs,
        added: &Impairment,
        camera_kbps: u32,
    ) -> zenoh::Result<Self> {
        let uses = vec![RadioUse::default(); stages.len()];
        let paths = vec![None; world.vehicles as usize];
        let (world, began) = (World::new(world), Instant::now());
        let mut director = Self { stages, world, paths, uses, began };
        director.move_radio(clock::now(), added)?;
        director.stages.iter_mut().try_for_each(|stage| stage.start(camera_kbps))?;
        Ok(director)
    }

    /// Runs the demo until it is stopped or falls apart.
    pub(super) fn direct(
        mut self,
        controls: &Controls,
        views: &watch::Sender<String>,
        stop: &Stop,
    ) -> zenoh::Result<()> {
        let outcome = self.run(controls, views, stop);
        let reports: Vec<_> = self.stages.iter().filter_map(Stage::report).collect();
        self.stages.into_iter().for_each(Stage::close);
        let mut out = std::io::stdout().lock();
        // Whether or not somebody reads it, the outcome counts.
        reports.iter().for_each(|report| drop(writeln!(out, "{}", summary(report))));
        outcome
    }

    fn run(
        &mut self,
        controls: &Controls,
        views: &watch::Sender<String>,
        stop: &Stop,
    ) -> zenoh::Result<()> {
        let mut due = Instant::now();
        // The parts have used the radio since then.
        let mut counted = self.began;
        let mut printed = due;
        loop {
            let added = controls.wait_until(due);
            due = next_due(due, Instant::now());
            if stop.wait_for(Duration::ZERO) {
                return Ok(());
            }
            let now = clock::now();
            let vehicles = self.move_radio(now, &added)?;
            if counted.elapsed() >= COUNT_EVERY {
                self.count(counted.elapsed())?;
                counted = Instant::now();
            }
            let view = self.view(now, added, vehicles);
            // Nobody needs to look.
            let _ = views.send(serde_json::to_string(&view)?);
            if printed.elapsed() >= PRINT_EVERY {
                print(&view);
                printed = Instant::now();
            }
        }
    }

    /// Sets every radio by the vehicle's distance.
    fn move_radio(&mut self, now: Duration, added: &Impairment) -> zenoh::Result<Vec<VehicleView>> {
        let mut views = Vec::new();
        for vehicle in 0..self.world.vehicles() {
            let Some(motion) = self.world.motion(vehicle, now) else {
                continue;
            };
            let distance_m = self.world.distance_m(OWN, vehicle, now);
            let path = Path::over(distance_m, added);
            views.push(VehicleView::new(vehicle, motion, distance_m, &path));
            let set = &mut self.paths[vehicle as usize];
            if vehicle != OWN && set.is_none_or(|set| has_changed(&set, &path)) {
                *set = Some(path);
                self.stages.iter_mut().try_for_each(|stage| stage.set_radio(vehicle, &path))?;
            }
        }
        Ok(views)
    }

    /// Counts what the radio has carried in the time `since`, and looks whether everybody is there.
    fn count(&mut self, since: Duration) -> zenoh::Result<()> {
        let seconds = since.as_secs_f64().max(0.001);
        for (stage, used) in self.stages.iter_mut().zip(&mut self.uses) {
            stage.check()?;
            let count = stage.radio_use(self.world.vehicles())?;
            let packets = count.entered_packets as f64;
            *used = RadioUse {
                kbytes_per_s: count.entered_bytes as f64 / 1e3 / seconds,
                packets_per_s: packets / seconds,
                lost_percent: 100.0 * count.lost as f64 / packets.max(1.0),
            };
        }
        Ok(())
    }

    fn view(&self, now: Duration, added: Impairment, vehicles: Vec<VehicleView>) -> View {
        let link = |(stage, radio): (&Stage, &RadioUse)| LinkView {
            name: stage.name.to_owned(),
            radio: *radio,
            report: stage.report(),
        };
        View {
            at_ms: clock::milliseconds(now),
            elapsed_s: self.began.elapsed().as_secs_f64(),
            added,
            vehicles,
            links: self.stages.iter().zip(&self.uses).map(link).collect(),
        }
    }
}

/// When the view after this one is due: a slider that is dragged brings views forward and puts none off.
fn next_due(due: Instant, now: Instant) -> Instant {
    (due + VIEW_EVERY).clamp(now, now + VIEW_EVERY)
}

fn has_changed(set: &Path, path: &Path) -> bool {
    let changes = [
        set.loss_percent - path.loss_percent,
        set.burst_packets - path.burst_packets,
        set.delay_ms - path.delay_ms,
    ];
    let is_switched = (set.fades, set.second) != (path.fades, path.second);
    is_switched || changes.into_iter().any(|change| change.abs() >= LEAST_CHANGE)
}

/// A line for each link, for those without a browser.
fn print(view: &View) {
    let mut out = std::io::stdout().lock();
    for LinkView { name, radio, report } in &view.links {
        let Some(Report { shown, .. }) = report else {
            continue;
        };
        let _ = writeln!(
            out,
            "{:5.0} s  {name:<9}  oldest news {:>7}   late or lost {:>6}   hazards {:>8} (slowest {})   {:.0} kB/s",
            view.elapsed_s, shown.worst_age, shown.missed, shown.hazards, shown.slowest_hazard, radio.kbytes_per_s
        );
    }
}

/// How a link did in all.
fn summary(report: &Report) -> String {
    let (beacons, hazards) = (&report.beacons_total, &report.hazards_total);
    format!(
        "{}: {} of {} beacons late or lost, {} of {} hazards heard (slowest {:.0} ms), {} of {} dangers not warned of",
        report.link,
        beacons.missed(),
        beacons.all(),
        hazards.heard,
        hazards.told,
        hazards.slowest_ms,
        report.encounters.unwarned,
        report.encounters.dangers
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_the_wait_and_is_seen_once() {
        let controls = Controls::new(Impairment::default());
        let never = Instant::now() + Duration::from_secs(60);
        assert_eq!(controls.wait_until(never), Impairment::default(), "the first one at once");
        let added = Impairment { drop_percent: 30.0, ..Impairment::default() };
        let setting = controls.clone();
        let setter = std::thread::spawn(move || setting.set(added));
        assert_eq!(controls.wait_until(never), added);
        setter.join().unwrap();
        assert_eq!(controls.wait_until(Instant::now()), added, "a time that has come");
    }

    #[test]
    fn a_dragged_slider_does_not_put_off_the_next_view() {
        let controls = Controls::new(Impairment::default());
        let mut due = Instant::now();
        for _ in 0..50 {
            controls.set(Impairment::default());
            controls.wait_until(due);
            let now = Instant::now();
            due = next_due(due, now);
            assert!((now..=now + VIEW_EVERY).contains(&due), "{:?} ahead", due - now);
        }
        let awake = due + Duration::from_secs(60);
        assert_eq!(next_due(due, awake), awake, "a machine that was asleep does not catch up");
    }

    #[test]
    fn a_path_is_set_anew_when_it_differs() {
        let near = Path::over(50.0, &Impairment::default());
        assert!(!has_changed(&near, &Path::over(51.0, &Impairment::default())));
        assert!(has_changed(&near, &Path::over(450.0, &Impairment::default())));
        let delayed = Impairment { delay_ms: 20.0, ..Impairment::default() };
        assert!(has_changed(&near, &Path::over(50.0, &delayed)));
        let fading = Impairment { fades: true, ..Impairment::default() };
        assert!(has_changed(&near, &Path::over(50.0, &fading)));
    }
}
