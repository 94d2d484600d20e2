//! What can go wrong with a lab.

/// A lab that cannot be made, found or taken down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The name is not usable as the name of a file.
    #[error(
        "{name:?} cannot be the name of a lab; take letters, digits, '-', '_' and '.', \
         at most {max} of them, and begin with a letter or digit"
    )]
    Name { name: String, max: usize },
    /// The MTU is outside what a lab offers.
    #[error("the MTU of a lab is {min} to {max}, not {mtu}")]
    Mtu { mtu: u32, min: u32, max: u32 },
    /// Somebody runs something in it.
    #[error("the lab {name} is in use{}; wait for it to end, or end it", by(*.pid))]
    InUse {
        /// Which lab.
        name: String,
        /// The process that made it, when it still runs.
        pid: Option<u32>,
    },
    /// There is a lab of that name already.
    #[error("the lab {0} is up already; 'quaff lab down {0}' takes it down")]
    Taken(String),
    /// A capturer or the generator did not do what it was started for.
    #[error("{name}: {what}")]
    Tool {
        /// Which.
        name: String,
        /// What went wrong, with the last that it said.
        what: String,
    },
    /// A description of a capturer is wrong.
    #[error("{place}: {what}")]
    Description {
        /// File, line and key, or the command.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// There is no capturer of that name.
    #[error("there is no capturer {name}; there is {}", .known.join(", "))]
    UnknownTool {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// There is no disk to write to, or too little of it.
    #[error("{0}")]
    Place(String),
    /// A service test cannot be made.
    #[error("{0}")]
    Service(String),
    /// An end of a path cannot be used.
    #[error("{end}: {what}")]
    End {
        /// Which, as people write it.
        end: String,
        /// Why, and what to do.
        what: String,
    },
    /// The caller wanted no more.
    #[error("interrupted")]
    Interrupted,
    /// There is none of that name.
    #[error("there is no lab {name}{}", others(.known))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The labs that there are.
        known: Vec<String>,
    },
}

/// A result about a lab.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
}

fn others(known: &[String]) -> String {
    match known {
        [] => "; 'quaff lab up' makes one".into(),
        known => format!("; there is {}", known.join(", ")),
    }
}
