use hookjail::sandbox::Confined;

async fn twice(confined: Confined) {
    drop(confined.run().await);
    drop(confined.run().await);
}

fn main() {}
