package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"berth/internal/lib/nearest"
)

const (
	versionRaw  = "raw"
	versionTrue = "true"
)

// CommandLine holds the flags of a command line.
type CommandLine struct {
	Help  bool
	set   *pflag.FlagSet
	given map[string]any // parsed values of the flags that were given, by name
}

// Parse reads the arguments of a kubelet, without the name of the program.
func Parse(args []string) (*CommandLine, error) {
	c := &CommandLine{set: pflag.NewFlagSet("kubelet", pflag.ContinueOnError), given: map[string]any{}}
	c.set.SetNormalizeFunc(normalize)
	c.set.SortFlags = true
	c.set.Usage = func() {}
	normal, err := defaults()
	if err != nil {
		return nil, err
	}
	for _, f := range allFlags() {
		added := c.set.VarPF(&value{flag: f, to: c.given}, f.Name, f.Shorthand, usage(f))
		added.NoOptDefVal, added.DefValue, added.Hidden = bare[f.Type], defaultText(f, normal), f.Removed
	}
	c.set.BoolVarP(&c.Help, "help", "h", false, "print this help, and end")
	if err := c.set.Parse(args); err != nil {
		return nil, explain(err)
	}
	if c.set.NArg() > 0 {
		return nil, fmt.Errorf("unknown command %s: the kubelet takes flags only", c.set.Arg(0))
	}
	return c, nil
}

// normalize makes dashes of underscores in the name of a flag, as all programs of Kubernetes do.
func normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// explain adds the most similar flag to the error of an unknown one.
func explain(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var known []string
	for _, f := range allFlags() {
		if !f.Removed {
			known = append(known, f.Name)
		}
	}
	return fmt.Errorf("%w%s", err, nearest.Hint(unknown.GetSpecifiedName(), "--", known))
}

// Usage lists all flags.
func (c *CommandLine) Usage() string { return c.set.FlagUsagesWrapped(0) }

// String returns the value of a flag that sets no field of the configuration, or its default.
func (c *CommandLine) String(name string) string {
	if text, ok := c.given[name].(string); ok {
		return text
	}
	return c.set.Lookup(name).DefValue
}

// Bool returns the value of a boolean flag that sets no field of the configuration.
func (c *CommandLine) Bool(name string) bool {
	b, _ := c.given[name].(bool)
	return b
}

// Labels returns the value of --node-labels.
func (c *CommandLine) Labels() map[string]string {
	labels, _ := c.given["node-labels"].(map[string]string)
	return labels
}

// Version reports whether --version was given, and whether as --version=raw.
func (c *CommandLine) Version() (asked, raw bool) {
	text := c.String("version")
	return text == versionTrue || text == versionRaw, text == versionRaw
}

// secretFlags are the flags whose values may hold credentials.
var secretFlags = []string{"manifest-url", "manifest-url-header", "storage-driver-password"}

// Given returns the flags that were given, without the values of secretFlags.
func (c *CommandLine) Given() map[string]string {
	out := map[string]string{}
	c.set.Visit(func(f *pflag.Flag) {
		out[f.Name] = f.Value.String()
		if slices.Contains(secretFlags, f.Name) {
			out[f.Name] = "(not shown)"
		}
	})
	return out
}

// value implements pflag.Value for one flag.
type value struct {
	flag Flag
	text string
	to   map[string]any
}

// Set implements pflag.Value.
func (v *value) Set(text string) error {
	parse, ok := parsersByFlag[v.flag.Name]
	if !ok {
		parse = parsers[v.flag.Type]
	}
	parsed, err := parse(v.to[v.flag.Name], text)
	if err != nil {
		return err
	}
	v.to[v.flag.Name] = parsed
	if v.text != "" && grows(v.flag.Type) {
		text = v.text + "," + text
	}
	v.text = text
	return nil
}

// grows reports whether the values of a repeated flag of this type add up.
func grows(typeName string) bool {
	return strings.HasPrefix(typeName, "map") || slices.Contains([]string{"stringSlice", "colonSeparatedMultimapStringString", "[]v1.Taint", "reserved-memory"}, typeName)
}

// String implements pflag.Value.
func (v *value) String() string { return v.text }

// Type implements pflag.Value.
func (v *value) Type() string { return v.flag.Type }
