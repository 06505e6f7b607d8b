package nodeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Names of the structured forms of /flagz and /statusz, the same as the kubelet's.
const (
	zpageGroup     = "config.k8s.io"
	zpageComponent = "kubelet"
)

// zpageVersions are the versions of the structured forms. A deprecated one is answered with a warning.
var zpageVersions = map[string]struct{ deprecated bool }{"v1beta1": {}, "v1alpha1": {deprecated: true}}

// flagz is the structured form of /flagz.
type flagz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Flags map[string]string `json:"flags,omitempty"`
}

// statusz is the structured form of /statusz.
type statusz struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

// zpageForm is the form in which a client wants a page.
type zpageForm struct {
	encode  func(any) ([]byte, error) // nil: text for people
	media   string
	version string
}

// negotiate returns the first form that the client accepts and that the page of this kind has: plain text, or JSON and
// YAML with parameters that name the kind: application/json;g=config.k8s.io;v=v1beta1;as=Flagz.
func negotiate(accept, kind string) (zpageForm, error) {
	if strings.TrimSpace(accept) == "" {
		return zpageForm{}, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		form := zpageForm{media: media, version: params["v"]}
		switch media {
		case "text/plain", "text/*", "*/*":
			return zpageForm{}, nil
		case "application/json":
			form.encode = json.Marshal
		case "application/yaml":
			form.encode = yaml.Marshal
		default:
			continue
		}
		if _, known := zpageVersions[form.version]; known && params["g"] == zpageGroup && params["as"] == kind {
			return form, nil
		}
	}
	return zpageForm{}, problemf(http.StatusNotAcceptable, "only text/plain, application/json and application/yaml are served, the last two with ;g=%s;v=v1beta1;as=%s", zpageGroup, kind)
}

// sendZpage answers with the structured form of a page.
func sendZpage(w http.ResponseWriter, form zpageForm, value any) error {
	body, err := form.encode(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if zpageVersions[form.version].deprecated {
		w.Header().Set("Warning", `299 - "This version is deprecated: use v1beta1."`)
	}
	w.Header().Set("Content-Type", form.media)
	_, _ = w.Write(body) // the client may be gone
	return nil
}

func (f zpageForm) typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: zpageGroup + "/" + f.version}
}

const notForPrograms = "This page is for people: its form may change at any time. Programs ask for JSON.\n"

// serveFlagz answers with the flags.
func (a *API) serveFlagz(w http.ResponseWriter, r *http.Request) error {
	form, err := negotiate(r.Header.Get("Accept"), "Flagz")
	if err != nil {
		return err
	}
	if form.encode != nil {
		return sendZpage(w, form, flagz{TypeMeta: form.typeMeta("Flagz"), ObjectMeta: metav1.ObjectMeta{Name: zpageComponent}, Flags: a.Flags})
	}
	var text strings.Builder
	text.WriteString("\nkubelet flagz\n" + notForPrograms + "\n")
	for _, name := range slices.Sorted(maps.Keys(a.Flags)) {
		fmt.Fprintf(&text, "%s=%s\n", name, a.Flags[name])
	}
	sendText(w, text.String())
	return nil
}

// serveStatusz answers with versions, start time and paths.
func (a *API) serveStatusz(w http.ResponseWriter, r *http.Request) error {
	form, err := negotiate(r.Header.Get("Accept"), "Statusz")
	if err != nil {
		return err
	}
	status := statusz{
		TypeMeta: form.typeMeta("Statusz"), ObjectMeta: metav1.ObjectMeta{Name: zpageComponent},
		StartTime: metav1.NewTime(a.Started), UptimeSeconds: int64(time.Since(a.Started).Seconds()),
		GoVersion: runtime.Version(), BinaryVersion: a.Version, Paths: a.listedPaths(),
	}
	if form.encode != nil {
		return sendZpage(w, form, status)
	}
	var text strings.Builder
	text.WriteString("\nkubelet statusz\n" + notForPrograms + "\n")
	fmt.Fprintf(&text, "Started: %s\n", a.Started.UTC().Format(time.UnixDate))
	fmt.Fprintf(&text, "Up: %s\n", time.Since(a.Started).Round(time.Second))
	fmt.Fprintf(&text, "Go version: %s\n", status.GoVersion)
	fmt.Fprintf(&text, "Binary version: %s\n", status.BinaryVersion)
	fmt.Fprintf(&text, "Paths: %s\n", strings.Join(status.Paths, " "))
	sendText(w, text.String())
	return nil
}

// listedPaths returns the paths of the API, each up to its first wildcard.
func (a *API) listedPaths() []string {
	var paths []string
	for _, r := range a.routes() {
		path, _, _ := strings.Cut(r.pattern, "/{")
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
