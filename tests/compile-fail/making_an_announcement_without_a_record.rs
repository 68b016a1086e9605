use hookjail::{audit::Announced, policy::Plan};

fn unwritten(plan: Plan) -> Announced {
    Announced { plan }
}

fn main() {}
