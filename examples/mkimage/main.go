// Command mkimage makes an image archive out of a few local files:
//
//	go run ./examples/mkimage -tag localhost/hello:1 -o hello.tar /hello=bin/hello
//
// The archive appears under its name only once it is whole, so it may be written
// straight into a folder that an agent watches.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/runtime/ociarchive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var img ociarchive.Image
	flags := flag.NewFlagSet("mkimage", flag.ContinueOnError)
	flags.StringVar(&img.Tag, "tag", "", "full name of the image, such as localhost/hello:1")
	out := flags.String("o", "", "file to write")
	format := flags.String("format", "oci", "oci or docker")
	entrypoint := flags.String("entrypoint", "", "entrypoint, its words parted by spaces")
	command := flags.String("cmd", "", "default arguments, parted by spaces")
	flags.Func("env", "NAME=value; may be repeated", func(s string) error {
		img.Env = append(img.Env, s)
		return nil
	})
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: mkimage -tag TAG -o FILE [flags] /path/in/image=local/file ...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	img.Entrypoint, img.Cmd = strings.Fields(*entrypoint), strings.Fields(*command)

	if *out == "" {
		return fmt.Errorf("name the file to write with -o")
	}
	var err error
	if img.Files, err = readFiles(flags.Args()); err != nil {
		return err
	}
	switch *format {
	case "oci":
		return writeWhole(*out, img, ociarchive.Write)
	case "docker":
		return writeWhole(*out, img, ociarchive.WriteDocker)
	default:
		return fmt.Errorf("format %q is not known: use oci or docker", *format)
	}
}

func readFiles(args []string) ([]ociarchive.File, error) {
	var files []ociarchive.File
	for _, arg := range args {
		inside, local, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q is not of the form /path/in/image=local/file", arg)
		}
		data, err := os.ReadFile(local)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(local)
		if err != nil {
			return nil, err
		}
		files = append(files, ociarchive.File{Path: inside, Mode: info.Mode().Perm(), Data: data})
	}
	return files, nil
}

// writeWhole writes beside the final name first, and renames at the end.
func writeWhole(name string, img ociarchive.Image, write func(io.Writer, ociarchive.Image) error) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".mkimage-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails once it was renamed, and that is well
	if err := write(file, img); err != nil {
		file.Close()
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
