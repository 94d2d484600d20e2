//! The error type of this crate and of the experiments that use it.

/// A failure of a lab, a tool or an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A failed request to the kernel.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The name is not usable as a file name.
    #[error(
        "{name:?} cannot be the name of a lab; use letters, digits, '-', '_' and '.', \
         at most {max} of them, and begin with a letter or digit"
    )]
    Name { name: String, max: usize },
    /// The MTU is outside the range of a lab.
    #[error("the MTU of a lab is {min} to {max}, not {mtu}")]
    Mtu { mtu: u32, min: u32, max: u32 },
    /// Another process uses the lab.
    #[error("the lab {name} is in use{}; wait for it to end, or end it", by(.users))]
    InUse {
        name: String,
        /// Process IDs and command lines, as far as readable.
        users: Vec<(u32, String)>,
    },
    /// A lab with that name exists.
    #[error("the lab {0} is up already; 'quaff lab down {0}' takes it down")]
    Taken(String),
    /// A capturer or the generator failed.
    #[error("{name}: {what}")]
    Tool {
        name: String,
        /// The failure, with the end of its output.
        what: String,
    },
    /// An invalid description of a capturer.
    #[error("{place}: {what}")]
    Description {
        /// File, line and key, or the command.
        place: String,
        what: String,
    },
    /// There is no capturer with that name.
    #[error("there is no capturer {name}; there is {}", .known.join(", "))]
    UnknownTool { name: String, known: Vec<String> },
    /// There is no flow meter with that name.
    #[error("there is no flow meter {name}; there is {}", .known.join(", "))]
    UnknownMeter { name: String, known: Vec<String> },
    /// There is no reader of capture files with that name.
    #[error("there is no reader of files {name}; there is {}", .known.join(", "))]
    UnknownReader { name: String, known: Vec<String> },
    /// No disk is available, or it has too little free space.
    #[error("{0}")]
    Place(String),
    /// A service test cannot run.
    #[error("{0}")]
    Service(String),
    /// An unusable end of a path.
    #[error("{end}: {what}")]
    End {
        /// The end as the user writes it.
        end: String,
        /// The reason and the remedy.
        what: String,
    },
    /// The caller ended the run.
    #[error("interrupted")]
    Interrupted,
    /// There is no lab with that name.
    #[error("there is no lab {name}{}", others(.known))]
    Unknown { name: String, known: Vec<String> },
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn by(users: &[(u32, String)]) -> String {
    let words: Vec<_> = users.iter().map(|(pid, line)| format!("process {pid} ({line})")).collect();
    if words.is_empty() { String::new() } else { format!(" by {}", words.join(", ")) }
}

fn others(known: &[String]) -> String {
    match known {
        [] => "; 'quaff lab up' makes one".into(),
        known => format!("; there is {}", known.join(", ")),
    }
}
