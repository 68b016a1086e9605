use hookjail::axis::{Axes, Coverage};

fn all_but_network() -> Axes<Coverage> {
    let runner = || Coverage::Enforced { by: "runner" };
    Axes {
        cpu: runner(),
        devices: runner(),
        environment: runner(),
        execute: runner(),
        ipc: runner(),
        memory: runner(),
        metadata: runner(),
        output: runner(),
        pids: runner(),
        read: runner(),
        spawn: runner(),
        time: runner(),
        write: runner(),
    }
}

fn main() {}
