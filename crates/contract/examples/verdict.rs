//! Prints what the end of a hook means to its runtime. The end comes on stdin, as a runner reports it:
//! `echo '{"exit_code": 2, "stderr": "no"}' | cargo run -p hookjail-contract --example verdict claude_code PreToolUse`.

use std::{env, error::Error, io};

use hookjail_contract::{ExternalEnd, Mode, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let contract = arguments.next().ok_or("name a contract")?;
    let point = arguments.next().ok_or("name a lifecycle point")?;
    let mode = Mode::any_of(&contract).ok_or("unknown contract")?;
    let end: ExternalEnd = serde_json::from_reader(io::stdin())?;
    let reading = read(mode, &point, &[end])?;
    serde_json::to_writer_pretty(io::stdout(), &reading)?;
    Ok(())
}
