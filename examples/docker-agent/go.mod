module github.com/hookjail/hookjail/examples/docker-agent

go 1.23

require github.com/hookjail/hookjail/clients/go v0.1.0

replace github.com/hookjail/hookjail/clients/go => ../../clients/go
