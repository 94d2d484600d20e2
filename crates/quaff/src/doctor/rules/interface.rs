//! Whether frames arrive at all, and what of them the card has room for.

use super::super::readings::InterfaceReadings;
use super::super::words::{bits, count, span};
use super::super::{Change, Diagnosis, Finding, Knob, Severity};
use super::frames_per_second;
use quaff_os::ethtool::RxRingSize;

/// A ring should last as long as the core that empties it may be kept from it, s.
const RING_SECONDS: f64 = 1e-3;
/// The shortest time before an interrupt that is advised, µs.
const RX_USECS_MIN: u32 = 3;
/// Where the rate is not known.
const RING_FRAMES: u32 = 1024;
/// What one core has been measured to take into a packet socket, frames/s.
const CORE_PPS: f64 = 1.9e6;
/// From such a rate on one core may not be enough, b/s.
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
    let name = &it.name;
    if !it.is_up {
        found.find(Finding::new(
            "down",
            Severity::Critical,
            format!("{name} is down"),
            "not one frame arrives at an interface that is not switched on".into(),
            format!("ip link set dev {name} up"),
        ));
    } else if !it.is_running {
        found.find(Finding::new(
            "no-link",
            Severity::Warning,
            format!("{name} has no link"),
            "not one frame arrives until the other end is there".into(),
            format!("see to the cable, the optics and the other end; 'ethtool {name}' tells of the link"),
        ));
    }
}

fn drops(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let Some(total) = found.read(&format!("frames that {name} had no room for"), &it.dropped) else { return };
    let total = *total;
    match it.dropped_watched {
        Some(watched) if watched.more > 0 => found.find(Finding::new(
            "nic-drops",
            Severity::Critical,
            format!("{name} loses frames now: {} in {}", watched.more, span(watched.time.as_secs_f64())),
            format!(
                "its ring is emptied too late, or too slowly; {} since it is there",
                count(total, "frame")
            ),
            format!("watch -d ethtool -S {name}"),
        )),
        _ => found.fine(format!("frames that {name} had no room for"), total.to_string()),
    }
}

/// The frames that the ring should hold, as far as it can.
pub(super) fn ring_wanted(ring: RxRingSize, rate: Option<f64>) -> u32 {
    let most = f64::from(ring.frames_max);
    let wanted =
        rate.map_or(RING_FRAMES, |rate| (frames_per_second(rate) * RING_SECONDS).ceil().min(most) as u32);
    if ring.frames >= wanted.min(ring.frames_max) {
        return ring.frames;
    }
    wanted.checked_next_power_of_two().unwrap_or(ring.frames_max).min(ring.frames_max)
}

/// The frames that the ring holds, once it is as large as it should be.
fn ring(it: &InterfaceReadings, rate: Option<f64>, found: &mut Diagnosis) -> Option<u32> {
    let name = &it.name;
    let what = format!("receive ring of {name}");
    let ring = *found.read(&what, &it.ring)?;
    let (RxRingSize { frames, frames_max }, to) = (ring, ring_wanted(ring, rate));
    if to == frames {
        found.fine(what, format!("{frames} of {frames_max} frames"));
        return Some(frames);
    }
    let lasts = |rate: f64| span(f64::from(frames) / frames_per_second(rate));
    let time = match rate {
        Some(rate) => format!("at {} the smallest frames fill it in {}", bits(rate), lasts(rate)),
        None => format!("at 1 million frames a second it is full in {}", span(f64::from(frames) / 1e6)),
    };
    let so_far = match it.dropped {
        Ok(Some(total)) if total > 0 => format!(" ({total} so far)"),
        _ => String::new(),
    };
    let finding = Finding::new(
        "ring",
        Severity::Warning,
        format!("the receive ring of {name} holds {frames} frames, and could hold {frames_max}"),
        format!("{time}; a core that is kept from it for longer loses frames in the card{so_far}"),
        format!("ethtool -G {name} rx {to}"),
    );
    found.find(finding.mended_by(vec![Change { knob: Knob::Ring(name.clone()), to: to.to_string() }]));
    Some(to)
}

fn channels(it: &InterfaceReadings, rate: Option<f64>, cores: usize, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("channels of {name}");
    let Some(channels) = found.read(&what, &it.channels) else { return };
    let channels = *channels;
    let is_fast = rate.is_some_and(|rate| rate >= FAST_BPS);
    if channels.receiving > 1 || channels.receiving_max < 2 || cores < 3 || !is_fast || !it.is_hardware {
        found.fine(what, format!("{} of {}", channels.receiving, channels.receiving_max));
        return;
    }
    // One core is the lane's.
    let to = channels.receiving_max.min(cores as u32 - 1);
    // Interrupts, masks and filters of the card are set up anew with its channels: nothing puts that back.
    found.find(Finding::new(
        "channels",
        Severity::Note,
        format!("{name} receives with one of {} channels", channels.receiving_max),
        format!(
            "one core takes in about {:.1} million frames a second at the most, and {} can bring {:.1} million",
            CORE_PPS / 1e6,
            bits(rate.unwrap_or(FAST_BPS)),
            frames_per_second(rate.unwrap_or(FAST_BPS)) / 1e6
        ),
        format!("ethtool -L {name} {} {to}", if channels.is_combined { "combined" } else { "rx" }),
    ));
}

fn coalescing(it: &InterfaceReadings, rate: Option<f64>, ring: Option<u32>, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("coalescing of {name}");
    let Some(now) = found.read(&what, &it.coalescing) else { return };
    let now = *now;
    let words = if now.is_adaptive { "adaptive".to_owned() } else { format!("{} µs", now.rx_usecs) };
    let (Some(rate), Some(ring), false) = (rate, ring, now.is_adaptive) else {
        found.fine(what, words);
        return;
    };
    let pps = frames_per_second(rate);
    let mut waiting = pps * f64::from(now.rx_usecs) / 1e6;
    if now.rx_frames > 0 {
        waiting = waiting.min(f64::from(now.rx_frames));
    }
    // Sooner than this a card would interrupt for almost each frame.
    let to = ((f64::from(ring) / 4.0 / pps * 1e6) as u32).max(RX_USECS_MIN);
    if waiting <= f64::from(ring) / 2.0 || to >= now.rx_usecs {
        found.fine(what, words);
        return;
    }
    let finding = Finding::new(
        "coalescing",
        Severity::Warning,
        format!("{name} interrupts {} µs after the first frame", now.rx_usecs),
        format!("at {} up to {waiting:.0} frames arrive in that time, and its ring holds {ring}", bits(rate)),
        format!("ethtool -C {name} adaptive-rx off rx-usecs {to}"),
    );
    found.find(finding.mended_by(vec![Change { knob: Knob::Coalescing(name.clone()), to: to.to_string() }]));
}

fn rss(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("RSS table of {name}");
    let Some(table) = found.read(&what, &it.rss).cloned() else { return };
    let queues = it.channels.as_ref().ok().copied().flatten().map_or(0, |channels| channels.receiving);
    let mut used = table.clone();
    used.sort_unstable();
    used.dedup();
    if used.len() != 1 || queues < 2 {
        found.fine(what, format!("{} entries, {}", table.len(), count(used.len() as u64, "queue")));
        return;
    }
    let even: Vec<_> = (0..table.len() as u32).map(|at| (at % queues).to_string()).collect();
    let finding = Finding::new(
        "rss",
        Severity::Warning,
        format!("the RSS table of {name} leads to one of its {queues} queues"),
        format!("one core takes in all, about {:.1} million frames a second at the most", CORE_PPS / 1e6),
        format!("ethtool -X {name} equal {queues}"),
    );
    found.find(finding.mended_by(vec![Change { knob: Knob::Rss(name.clone()), to: even.join(",") }]));
}
