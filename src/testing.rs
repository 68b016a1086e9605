//! Internals that this crate's own tests, benchmarks, fuzz targets and examples use. No API: it changes without notice.
//!
//! The modules are named after those of which they show a part. Nothing here starts a process past `pipeline`: what starts
//! children (`sys::launch`, `Sandbox::start`) is not among it. The crate itself uses nothing of it (`tests/imports.rs`).

pub mod cli {
    pub use crate::cli::Arguments;
}

pub mod config {
    pub use crate::config::{Config, ConfigProblem, ProcessEnv};
}

pub mod consent {
    pub use crate::consent::{ConsentRule, Operator};

    pub mod allowlist {
        pub use crate::consent::allowlist::Entry;
    }
    pub mod digest {
        pub use hookjail_sandbox::program::digest::hash_file;
    }
}

pub mod daemon {
    pub use crate::daemon::Assembly;
}

pub mod hooks {
    pub mod show {
        pub use crate::hooks::show::file;
    }
    pub mod valve {
        pub use crate::hooks::valve::{OnLimit, Valve};
    }
}

pub mod journal {
    pub mod append {
        pub use hookjail_journal::append::{Fsync, Journal, Settings};
    }
    pub mod read {
        pub use hookjail_journal::read::JournalReader;
    }
    pub mod record {
        pub use hookjail_journal::record::{Line, PeerLine, Record, Refused};
    }
    pub mod verify {
        pub use hookjail_journal::verify::{ChainBreak, VerifyError, verify_file, verify_journal};
    }
}

pub mod pipeline {
    pub use crate::pipeline::{Announced, Audit, Confined, Interpreted, Plan, Recorded};
}

pub mod policy {
    pub mod explain {
        pub use hookjail_policy::explain::{FileKind, Operation, Reach, Remedy, Target};
    }
    pub mod forbidden {
        pub use hookjail_policy::forbidden::Forbidden;
    }
    pub mod rights {
        pub use hookjail_policy::rights::Rights;
    }
}

pub mod sandbox {
    pub use crate::pipeline::Sandbox;
    pub use hookjail_sandbox::{BackendName, Claims, Prepared, Task};

    #[cfg(target_os = "linux")]
    pub mod explain {
        pub use hookjail_sandbox::explain::{
            Arguments, Explanation, Transport, Verdict, call, called, handled, host, number,
            parse_arguments, path,
        };
    }
    pub mod seatbelt {
        pub use hookjail_sandbox::seatbelt::{Generated, Granted, Kept, Places, profile};
    }
    #[cfg(target_os = "linux")]
    pub mod seccomp {
        pub use hookjail_sandbox::seccomp::FilterSpec;

        pub mod arguments {
            pub use hookjail_sandbox::seccomp::arguments::{ArgTest, Wanted};
        }
        pub mod rules {
            pub use hookjail_sandbox::seccomp::rules::{Rule, rule};
        }
        pub mod syscalls {
            pub use hookjail_sandbox::seccomp::syscalls::{TABLE, name, newest, nr, numbers};
        }
    }
}

pub mod schema {
    pub use crate::schema::Form;
}

#[cfg(target_os = "linux")]
pub mod sys {
    pub use hookjail_sys::{CLONE_FLAGS, landlock_abi};
}

pub mod wire {
    pub use crate::wire::{
        Incoming, Server, WireLimits, connect_timeout, decode, encode, recognised,
    };

    pub mod json {
        pub use crate::wire::json::encode;
    }
}
