use hookjail::{policy::Plan, sandbox::Sandbox};

async fn unannounced(sandbox: &Sandbox, plan: Plan) {
    drop(sandbox.confine(plan).await);
}

fn main() {}
