#!/usr/bin/env bash
# Prints a formula of Homebrew that builds a release from its sources. The formula was never built on a Mac.
#   formula.sh hookjail-VERSION.tar.gz
# `version` and `repository` are in the environment, from packaging/build.sh.
set -euo pipefail
cat <<EOF
class Hookjail < Formula
  desc "Runs the shell hooks of AI-agent runtimes confined"
  homepage "$repository"
  url "$repository/releases/download/v$version/$(basename "$1")"
  sha256 "$(sha256sum "$1" | cut -d ' ' -f 1)"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

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
EOF
