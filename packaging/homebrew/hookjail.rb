# A skeleton: no release exists yet that it could name, and nobody has built it on a Mac. `url` and `sha256` are filled in by
# the first release; until then `brew` refuses it, which is right. See docs/seatbelt.md.
class Hookjail < Formula
  desc "Runs the shell hooks of AI-agent runtimes confined"
  homepage "https://example.invalid/hookjail"
  url "https://example.invalid/hookjail-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :macos

  def install
    system "cargo", "install", *std_cargo_args
    pkgshare.install "launchd/org.hookjail.hookjail.plist"
  end

  service do
    run [opt_bin/"hookjail", "serve"]
    keep_alive successful_exit: false
    log_path var/"log/hookjail.log"
    error_log_path var/"log/hookjail.log"
  end

  test do
    assert_match "strict", shell_output("#{bin}/hookjail profile list")
  end
end
