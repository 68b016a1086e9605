//! Configured hooks: their files, their lists, and the actions that start no command.

pub(crate) mod builtin;
pub(crate) mod http;
pub(crate) mod lists;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod lookup;
pub(crate) mod redirection;
pub(crate) mod results;
pub(crate) mod rule;
pub(crate) mod save;
pub(crate) mod show;
pub(crate) mod valve;
pub(crate) mod variables;

pub(crate) use self::{
    builtin::Scene,
    results::{Results, ResultsOf},
};
pub(crate) use hookjail_contract::{
    Action, Builtin, HookList, Lists, Log, Matcher, Occasion, Owner, Payload, Registered, Save,
    Scope, Template,
};
