use hookjail::audit::Announced;

async fn unconfined(announced: Announced) {
    announced.run().await;
}

fn main() {}
