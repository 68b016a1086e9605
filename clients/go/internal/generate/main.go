// Generate writes hookjailpb anew, from the descriptors in crates/proto/src and with the generators that its arguments name.
//
// The descriptors are those that the daemon serves, with the comments of the .proto files, so no protocol compiler is needed.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: generate DESCRIPTORS DIRECTORY GENERATOR...")
		os.Exit(2)
	}
	for _, generator := range os.Args[3:] {
		if err := generate(os.Args[1], os.Args[2], generator); err != nil {
			fmt.Fprintf(os.Stderr, "generate: %s: %v\n", filepath.Base(generator), err)
			os.Exit(1)
		}
	}
}

func generate(descriptors, directory, generator string) error {
	encoded, err := os.ReadFile(descriptors)
	if err != nil {
		return err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(encoded, &set); err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		Parameter: proto.String("module=github.com/hookjail/hookjail/clients/go"),
		ProtoFile: set.GetFile(),
	}
	for _, file := range set.GetFile() {
		if file.GetPackage() == "hookjail.v1" {
			request.FileToGenerate = append(request.FileToGenerate, file.GetName())
		}
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.Command(generator)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", strings.TrimSpace(response.GetError()))
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(directory, file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o666); err != nil {
			return err
		}
	}
	return nil
}
