// Command sbom writes a CycloneDX bill of materials of a Go program, read from the program itself:
//
//	go run -C packaging ./sbom -o /tmp/berth.cdx.json /usr/bin/berth
//
// The same program makes the same bill: it has no serial number and no date.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	out := flag.String("o", "", "file for the bill")
	version := flag.String("version", "", "version of the program, if its main module does not say")
	flag.Parse()
	if err := write(*out, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(out, version string, programs []string) error {
	if len(programs) != 1 {
		return errors.New("usage: sbom -o FILE PROGRAM")
	}
	info, err := buildinfo.ReadFile(programs[0])
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	err = cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill(filepath.Base(programs[0]), version, info))
	return errors.Join(err, file.Close())
}

// bill lists the modules that a program was built from, with the Go release that built it.
func bill(name, version string, info *buildinfo.BuildInfo) *cyclonedx.BOM {
	if version == "" {
		version = info.Main.Version
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: info.Path, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version,
	}}
	components := []cyclonedx.Component{{
		BOMRef: "std", Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	for _, module := range info.Deps {
		components = append(components, library(module))
	}
	bom.Components = &components
	return bom
}

// library returns the component of a module, as it was built: a module that is replaced is not part of
// the program.
func library(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	purl := "pkg:golang/" + module.Path + "@" + module.Version
	return cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: purl,
	}
}
