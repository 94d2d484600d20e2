//! The state of an interface, its drops, and its receive ring, queues, coalescing and RSS table.

use super::super::format::{bits, count, quote, span};
use super::super::readings::InterfaceReadings;
use super::rate::frames_per_second;
use super::{Change, Diagnosis, Setting, Severity, known};
use quaff_os::ethtool::RxRingSize;

/// Time that a ring should bridge while its core is busy, s.
const RING_SECONDS: f64 = 1e-3;
/// Shortest advised delay of an interrupt, µs: below it a card would interrupt for almost each frame.
const RX_USECS_MIN: u32 = 3;
/// Wanted size of a ring where the rate is unknown.
const RING_FRAMES: u32 = 1024;
/// Measured: frames/s that one core receives into a packet socket.
const CORE_PPS: f64 = 1.9e6;
/// Rate from which one core may not suffice, b/s.
const FAST_BPS: f64 = 5e9;

pub(super) fn judge(it: &InterfaceReadings, rate: Option<f64>, cores: usize, found: &mut Diagnosis) {
    state(it, found);
    drops(it, found);
    let ring = ring(it, rate, found);
    channels(it, rate, cores, found);
    coalescing(it, rate, ring, found);
    rss(it, found);
}

fn state(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, word) = (&it.name, quote(&it.name));
    if !it.is_up {
        let fix = format!("ip link set dev {word} up");
        let why = "an interface that is down receives no frames";
        found.find("down", Severity::Critical, format!("{name} is down"), why, fix);
    } else if !it.is_running {
        // Without a command, ethtool takes such a name for one.
        let command = if name.starts_with('-') { "ip link show dev" } else { "ethtool" };
        let fix =
            format!("check the cable, the optics and the peer; '{command} {word}' shows the link state");
        let why = "no frames arrive until the link is up";
        found.find("no-link", Severity::Warning, format!("{name} has no link"), why, fix);
    }
}

fn drops(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("frames dropped by {}", it.name));
    let Some(total) = found.read(&what, &it.dropped) else { return };
    let Some(rise) = it.dropped_rise.filter(|rise| rise.by > 0) else {
        return found.fine(what, total.to_string());
    };
    found.find(
        "nic-drops",
        Severity::Critical,
        format!("{name} drops frames now: {} in {}", rise.by, span(rise.time.as_secs_f64())),
        format!("its ring is emptied too late or too slowly; {} in total", count(total, "frame")),
        format!("watch -d ethtool -S {}", quote(name)),
    );
}

/// The wanted size of a ring, frames, within its limit.
pub(super) fn ring_wanted(ring: RxRingSize, rate: Option<f64>) -> u32 {
    let most = f64::from(ring.frames_max);
    let wanted =
        rate.map_or(RING_FRAMES, |rate| (frames_per_second(rate) * RING_SECONDS).ceil().min(most) as u32);
    if ring.frames >= wanted.min(ring.frames_max) {
        return ring.frames;
    }
    wanted.checked_next_power_of_two().unwrap_or(ring.frames_max).min(ring.frames_max)
}

/// Returns the size of the ring after the fix, frames.
fn ring(it: &InterfaceReadings, rate: Option<f64>, found: &mut Diagnosis) -> Option<u32> {
    let (name, what) = (&it.name, format!("receive ring of {}", it.name));
    let ring = found.read(&what, &it.ring)?;
    let (RxRingSize { frames, frames_max }, to) = (ring, ring_wanted(ring, rate));
    if to == frames {
        found.fine(what, format!("{frames} of {frames_max} frames"));
        return Some(frames);
    }
    let time = |pps: f64| span(f64::from(frames) / pps);
    let time = match rate {
        Some(rate) => {
            format!("at {} the smallest frames fill it in {}", bits(rate), time(frames_per_second(rate)))
        }
        None => format!("at 1 million frames/s it is full after {}", time(1e6)),
    };
    let so_far = known(&it.dropped).filter(|total| *total > 0);
    let so_far = so_far.map_or(String::new(), |total| format!(" ({total} so far)"));
    let change = Change { setting: Setting::Ring(name.clone()), to: to.to_string() };
    let finding = found.find(
        "ring",
        Severity::Warning,
        format!("the receive ring of {name} holds {frames} frames of a possible {frames_max}"),
        format!("{time}; if its core is busy for longer, the card drops frames{so_far}"),
        format!("ethtool -G {} rx {to}", quote(name)),
    );
    finding.fixed_by(vec![change]);
    Some(to)
}

fn channels(it: &InterfaceReadings, rate: Option<f64>, cores: usize, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("channels of {}", it.name));
    let Some(channels) = found.read(&what, &it.channels) else { return };
    let fast = rate.filter(|rate| *rate >= FAST_BPS);
    let is_single = channels.receiving <= 1 && channels.receiving_max >= 2;
    let Some(rate) = fast.filter(|_| is_single && cores >= 3 && it.is_hardware) else {
        return found.fine(what, format!("{} of {}", channels.receiving, channels.receiving_max));
    };
    // One core is the lane's.
    let to = channels.receiving_max.min(cores as u32 - 1);
    // Not reversible: a change resets interrupts, masks and filters of the card.
    found.find(
        "channels",
        Severity::Note,
        format!("{name} receives with one of {} channels", channels.receiving_max),
        format!(
            "one core receives up to about {:.1} million frames/s, and {} can bring {:.1} million",
            CORE_PPS / 1e6,
            bits(rate),
            frames_per_second(rate) / 1e6
        ),
        format!("ethtool -L {} {} {to}", quote(name), if channels.is_combined { "combined" } else { "rx" }),
    );
}

fn coalescing(it: &InterfaceReadings, rate: Option<f64>, ring: Option<u32>, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("coalescing of {}", it.name));
    let Some(now) = found.read(&what, &it.coalescing) else { return };
    let value = if now.is_adaptive { "adaptive".to_owned() } else { format!("{} µs", now.rx_usecs) };
    let (Some(rate), Some(ring), false) = (rate, ring.map(f64::from), now.is_adaptive) else {
        return found.fine(what, value);
    };
    let pps = frames_per_second(rate);
    let mut waiting = pps * f64::from(now.rx_usecs) / 1e6;
    if now.rx_frames > 0 {
        waiting = waiting.min(f64::from(now.rx_frames));
    }
    let to = ((ring / 4.0 / pps * 1e6) as u32).max(RX_USECS_MIN);
    if waiting <= ring / 2.0 || to >= now.rx_usecs {
        return found.fine(what, value);
    }
    let finding = found.find(
        "coalescing",
        Severity::Warning,
        format!("{name} interrupts {} µs after the first frame", now.rx_usecs),
        format!(
            "at {} up to {} arrive in that time; the ring holds {}",
            bits(rate),
            count(waiting.round() as u64, "frame"),
            crate::format::count(ring as u64)
        ),
        format!("ethtool -C {} adaptive-rx off rx-usecs {to}", quote(name)),
    );
    finding.fixed_by(vec![Change { setting: Setting::Coalescing(name.clone()), to: to.to_string() }]);
}

fn rss(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("RSS table of {}", it.name));
    let Some(table) = found.read(&what, &it.rss) else { return };
    let queues = known(&it.channels).map_or(0, |channels| channels.receiving);
    let mut used = table.clone();
    used.sort_unstable();
    used.dedup();
    if used.len() != 1 || queues < 2 {
        return found.fine(what, format!("{} entries, {}", table.len(), count(used.len() as u64, "queue")));
    }
    let even: Vec<_> = (0..table.len() as u32).map(|at| (at % queues).to_string()).collect();
    let finding = found.find(
        "rss",
        Severity::Warning,
        format!("the RSS table of {name} uses one of its {queues} queues"),
        format!("one core receives all frames, up to about {:.1} million/s", CORE_PPS / 1e6),
        format!("ethtool -X {} equal {queues}", quote(name)),
    );
    finding.fixed_by(vec![Change { setting: Setting::Rss(name.clone()), to: even.join(",") }]);
}
