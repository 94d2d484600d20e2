//! Parsers of the values of `quaff service`: ends, topologies, services.

use crate::flags::values;
use crate::units::{self, Choice, choice_or};
use quaff_bench::service::plan::{Host, Path, PathEnd, Service};

/// Bits/s below which a rate is taken for one whose unit was forgotten.
const RATE_MIN: f64 = 1000.0;

/// `IF`, or `NETNS/IF`.
pub(super) fn end(text: &str) -> Result<PathEnd, String> {
    let (netns, interface) = match text.split_once('/') {
        Some((netns, interface)) => (Some(netns.to_owned()), interface),
        None => (None, text),
    };
    if interface.is_empty() || interface.contains('/') || netns.as_deref() == Some("") {
        return Err(format!("'{text}' is neither an interface nor NETNS/IF"));
    }
    Ok(PathEnd { netns, interface: interface.to_owned() })
}

/// `IP,GATEWAY`.
pub(super) fn host(text: &str) -> Result<Host, String> {
    let (ip, gateway) = text
        .split_once(',')
        .ok_or_else(|| format!("'{text}' is not IP,GATEWAY, such as 10.0.1.2,10.0.1.1"))?;
    let address =
        |word: &str| word.trim().parse().map_err(|_| format!("'{word}' in '{text}' is no IPv4 address"));
    Ok(Host { ip: address(ip)?, gateway: address(gateway)? })
}

values! {
    Path: choice_or(BEDS, "real interfaces are given with --from and --to");
}

/// The topologies between the ends of a lab.
const BEDS: [Choice<Path>; 4] = [
    ("link", Path::Link, "a cable"),
    ("bridge", Path::Bridge, ""),
    ("tap", Path::Tap, ""),
    ("router", Path::Router, ""),
];

/// Bits/s as Mbit/s.
pub(super) fn rate_mbps(text: &str) -> Result<f64, String> {
    match units::decimal(text)? {
        rate if rate < RATE_MIN => {
            Err(format!("'{text}' is less than a kilobit per second; {text}M is in Mbit/s"))
        }
        rate => Ok(rate / 1e6),
    }
}

/// Percent as a ratio.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 =
        text.trim_end_matches('%').trim().parse().map_err(|_| format!("'{text}' is no number"))?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(format!("'{text}' is not of 0 to 100"))
    }
}

/// `NAME:SIZE:CIR[:EIR[:CBS[:EBS]]]`. Limits come from elsewhere.
pub(super) fn service(text: &str) -> Result<Service, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [name, sizes, cir, more @ ..] = &parts[..] else {
        return Err(format!("'{text}' is not NAME:SIZE:CIR, such as voice:218:2M"));
    };
    if name.is_empty() || more.len() > 3 {
        return Err(format!("'{text}' is not NAME:SIZE:CIR[:EIR[:CBS[:EBS]]]"));
    }
    let size =
        |word: &str| word.parse::<u32>().map_err(|_| format!("'{word}' in '{text}' is no size in bytes"));
    let excess = |word: &&str| if *word == "0" { Ok(0.0) } else { rate_mbps(word) };
    let bytes = |at: usize| more.get(at).map_or(Ok(0), |word| units::bytes(word));
    // Other fields have the defaults of a plan in a file.
    let service = serde_json::json!({
        "name": name,
        "sizes": sizes.split('+').map(size).collect::<Result<Vec<u32>, String>>()?,
        "cir_mbps": rate_mbps(cir)?,
        "eir_mbps": more.first().map_or(Ok(0.0), excess)?,
        "cbs_bytes": bytes(1)?,
        "ebs_bytes": bytes(2)?,
    });
    serde_json::from_value(service).map_err(|error| format!("'{text}': {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_an_interface_with_or_without_a_namespace() {
        let of = |netns: Option<&str>, interface: &str| PathEnd {
            netns: netns.map(str::to_owned),
            interface: interface.to_owned(),
        };
        assert_eq!(end("eth0"), Ok(of(None, "eth0")));
        assert_eq!(end("east/eth0"), Ok(of(Some("east"), "eth0")));
        for wrong in ["", "/eth0", "east/", "a/b/c"] {
            assert!(end(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_is_an_address_and_its_gateway() {
        let found = host("10.0.1.2,10.0.1.1").expect("a host");
        assert_eq!((found.ip.octets(), found.gateway.octets()), ([10, 0, 1, 2], [10, 0, 1, 1]));
        for wrong in ["10.0.1.2", "10.0.1.2,", "10.0.1,10.0.1.1", "a,b"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_service_is_a_name_sizes_and_rates() {
        let voice = service("voice:218:2M").expect("a service");
        assert_eq!((voice.name.as_str(), &voice.sizes[..], voice.cir_mbps), ("voice", &[218][..], 2.0));
        let data = service("data:64+1518:200M:50M:64K:32K").expect("a service");
        assert_eq!((&data.sizes[..], data.cir_mbps, data.eir_mbps), (&[64, 1518][..], 200.0, 50.0));
        assert_eq!((data.cbs_bytes, data.ebs_bytes), (65_536, 32_768));
        assert_eq!(service("x:64:500k:0:8000").map(|service| service.cbs_bytes), Ok(8000));
        for wrong in ["voice", "voice:218", ":218:2M", "voice:x:2M", "voice:218:2", "a:1:1M:1M:1:1:1"] {
            assert!(service(wrong).is_err(), "{wrong}");
        }
        assert!(service("voice:218:2").expect_err("no unit").contains("2M is in Mbit/s"));
    }

    #[test]
    fn percents_are_ratios() {
        assert_eq!(percent("0.3").map(|ratio| (ratio * 1e6).round()), Ok(3000.0));
        assert_eq!(percent("100%"), Ok(1.0));
        assert!(percent("101").is_err() && percent("few").is_err());
    }
}
