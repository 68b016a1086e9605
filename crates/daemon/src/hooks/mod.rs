//! Configured hooks: their files, their lists, and the actions that start no command.

pub mod builtin;
pub(crate) mod http;
pub(crate) mod lists;
pub mod load;
pub(crate) mod log;
pub mod lookup;
pub mod redirection;
pub(crate) mod results;
pub(crate) mod rule;
pub(crate) mod save;
pub mod show;
pub mod valve;
pub mod variables;

pub(crate) use self::{
    builtin::Scene,
    results::{Results, ResultsOf},
};
pub(crate) use hookjail_contract::{
    Action, Builtin, HookList, Lists, Log, Matcher, Occasion, Owner, Payload, Registered, Save,
    Scope, Template,
};
