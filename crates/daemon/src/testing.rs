//! Internals that this crate's own tests, benchmarks, fuzz targets and examples use. No API, and subject to change without notice.
//!
//! The modules are named after those of which they show a part. Nothing here starts a process past `pipeline`. The crate itself uses nothing of it (`tests/imports.rs`).

pub mod config {
    pub use crate::config::{Config, ConfigProblem, ProcessEnv};
}

pub mod consent {
    pub use crate::consent::{ConsentRule, Operator};

    pub mod allowlist {
        pub use crate::consent::allowlist::Entry;
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

pub mod pipeline {
    pub use crate::pipeline::{Announced, Audit, Confined, Interpreted, Plan, Recorded, Sandbox};
}

pub mod schema {
    pub use crate::schema::Form;
}

pub mod wire {
    pub use crate::wire::{
        Incoming, Server, WireLimits, connect_timeout, decode, encode, recognised,
    };

    pub mod json {
        pub use crate::wire::json::encode;
    }
}
