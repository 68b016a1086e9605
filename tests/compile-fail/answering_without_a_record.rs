use hookjail::{audit::Interpreted, wire::encode};

fn unaudited(interpreted: &Interpreted) {
    drop(encode(interpreted));
}

fn main() {}
