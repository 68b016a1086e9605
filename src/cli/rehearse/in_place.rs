//! The command line of a rehearsal, and the confined run of a hook whose runtime is absent.

use std::{
    collections::BTreeSet,
    env,
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use tonic::transport::Channel;

use hookjail_base::model::Consent;
use hookjail_client::{
    Failure, RunArgs, connect,
    offered::ServerPlace,
    output,
    run_as::{ReplacedHook, StandInHook, StdinPayload, call, project, why},
};
use hookjail_contract::adopt::{Adopted, HookOutput};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};
use hookjail_sandbox::BriefState;
use hookjail_sys::hold_no_signals;

use super::{Layer, RefusedUse, Watch, Watched};
use crate::cli::{Context, declared::Declared, private_server, run::private};
use hookjail_daemon::{consent::ConsentRule, daemon::Assembly};

/// Runs a hook bare and confined, and shows what differs.
pub(in crate::cli) fn in_place(
    run: &RunArgs,
    runtime: Option<Adopted>,
    context: &Context,
) -> ExitCode {
    // The first thing: a process that has threads can make no user namespace.
    let layer = run.place.layer.then(|| layer(run, runtime, context));
    let layer = layer.transpose();
    let mut post = ReplacedHook::from_arguments(run, runtime);
    let payload = StdinPayload::read(&mut post);
    let hook = match StandInHook::new(&post, run) {
        Ok(hook) => hook,
        Err(output) => return post.say(&output),
    };
    hold_no_signals();
    // In a runtime's settings, `--rehearse` would let every call pass.
    if !context.call.json && !io::stdout().is_terminal() {
        let why = "hookjail: --rehearse replaces no hook; run it at a terminal, or with --json";
        return post.say(&post.refusal(why));
    }
    let read = payload.read.map_err(Failure::from);
    let rehearsed = read.and_then(|()| {
        let payloads = match run.place.payloads {
            true => serde_json::from_slice::<Vec<String>>(&payload.bytes)?
                .into_iter()
                .map(String::into_bytes)
                .collect(),
            false => vec![payload.bytes],
        };
        super::run(&hook, context, payloads, layer?)
    });
    rehearsed.unwrap_or_else(|failure| {
        output::failure(&failure, context.call.json);
        ExitCode::from(failure.code)
    })
}

/// Lays a layer over the workspace of a hook, as [`StandInHook::workspace`] has it.
fn layer(run: &RunArgs, runtime: Option<Adopted>, context: &Context) -> Result<Layer, Failure> {
    let workspace = match (&run.workspace, runtime) {
        (Some(named), _) => named.clone(),
        (None, Some(runtime)) => {
            let home = context.call.paths.home.as_deref();
            project(runtime, &env::current_dir()?, home)
        }
        (None, None) => return Err(Failure::new("name the workspace of the layer")),
    };
    Layer::on_workspace(&workspace)
}

/// The end of a confined run that a person looks at.
pub(super) struct ConfinedEnd {
    /// The decision, as the protocol spells it.
    pub(super) decision: String,
    pub(super) denials: Vec<pb::Denial>,
    /// The reason why hookjail answers in the hook's place, if it does.
    pub(super) failure: Option<String>,
    /// The hosts that it connected to, none twice; `None` where they cannot be observed.
    pub(super) hosts: Option<BTreeSet<String>>,
    /// From its release to the end of its tree, milliseconds.
    pub(super) millis: u64,
    /// The reason of the decision.
    pub(super) reason: String,
    /// The accesses that the profile refused, none twice; `None` where they cannot be observed.
    pub(super) refused: Option<Vec<RefusedUse>>,
    /// The answer to the runtime.
    pub(super) said: HookOutput,
}

/// Runs the hook by a private daemon for each payload, without consent, and with files that last for these runs alone. After
/// each run `then` is called with its end and these files.
///
/// # Errors
///
/// Fails where the configuration cannot be read, the hook is refused, or `then` fails.
pub(super) fn privately<T>(
    hook: &StandInHook<'_>,
    context: &Context,
    payloads: Vec<Vec<u8>>,
    mut then: impl FnMut(ConfinedEnd, &BriefState) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let requests = payloads.into_iter();
    let requests =
        requests.map(|payload| hook.request(&context.call, payload, ServerPlace::Process));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = requests.first().cloned() else {
        return Ok(Vec::new());
    };
    let (mut config, _) = private(context, &first)?;
    if let Some(file) = &hook.run.place.needs {
        let declared = Declared::read(file, &config).map_err(Failure::new)?;
        config.proposed_profiles.extend(declared.proposal());
    }
    let consent = ConsentRule::Given(Consent::Trial);
    let workspace = hook.workspace(&context.call)?;
    let state = BriefState::make(&config.paths.runtime)?;
    config.hook_state = Some(state.path().to_owned());
    let (assembly, watch) = Watch::begin(Assembly::begin()?);
    let served = config.clone();
    let run = async |channel: Channel, requests| {
        let request = Some(first);
        let mut service = HookServiceClient::new(Channel::clone(&channel));
        let preview = service.preview(pb::PreviewRequest { request }).await;
        let preview = preview.map_err(connect::refused)?;
        let preview = preview.into_inner();
        // A refused hook is not run, and its run reports the reason.
        let watched = match preview.refusal {
            Some(_) => None,
            None => {
                let profile = preview.confinement.unwrap_or_default().profile;
                let files = preview.files.into_iter().map(|file| file.path.into());
                let place = (profile.as_str(), &*workspace);
                Some(watch.with_profile(&config, place, files.collect())?)
            }
        };
        let mut all = Vec::new();
        for request in requests {
            // No runtime's timer runs here, only the hook's own.
            let service = HookServiceClient::new(Channel::clone(&channel));
            let response = call(service, request, None).await?;
            let seen = watched.as_ref().and_then(Watched::seen);
            let (refused, hosts) = seen.unzip();
            let end = hook.end(&response);
            let verdict = response.verdict.unwrap_or_default();
            let ran = response.usage.and_then(|usage| usage.run);
            let ran = ran.and_then(|ran| Duration::try_from(ran).ok());
            let end = ConfinedEnd {
                decision: decision_word(verdict.decision()),
                denials: response.denials,
                failure: end.as_ref().err().map(why),
                hosts,
                millis: ran.map_or(0, |ran| u64::try_from(ran.as_millis()).unwrap_or(u64::MAX)),
                reason: verdict.reason,
                refused,
                said: hook.answer(end),
            };
            all.push(then(end, &state)?);
        }
        Ok(all)
    };
    private_server::privately_by(&assembly, served, consent, requests, run)
}

/// Returns a decision's word: the end of its name in the protocol, in lower case.
fn decision_word(decision: pb::Decision) -> String {
    let name = decision.as_str_name();
    name.trim_start_matches("DECISION_").to_lowercase()
}
