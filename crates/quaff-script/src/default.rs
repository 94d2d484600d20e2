//! The built-in set of scripts: short Lua files in the folder `default`, each with a test in `tests/default_set`.

/// Name and text of each script.
pub const DEFAULT: &[(&str, &str)] = &[
    ("arp-changes", include_str!("../default/arp-changes.lua")),
    ("dns-log", include_str!("../default/dns-log.lua")),
    ("fragments-overlaps", include_str!("../default/fragments-overlaps.lua")),
    ("http-log", include_str!("../default/http-log.lua")),
    ("icmp-oddities", include_str!("../default/icmp-oddities.lua")),
    ("large-transfers", include_str!("../default/large-transfers.lua")),
    ("logins", include_str!("../default/logins.lua")),
    ("mail-envelopes", include_str!("../default/mail-envelopes.lua")),
    ("new-services", include_str!("../default/new-services.lua")),
    ("port-scans", include_str!("../default/port-scans.lua")),
    ("syn-floods", include_str!("../default/syn-floods.lua")),
    ("tls-log", include_str!("../default/tls-log.lua")),
    ("ttl-spoofing", include_str!("../default/ttl-spoofing.lua")),
];
