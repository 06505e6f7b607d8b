package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documents and the package comments name files, packages and identifiers. These tests fail if
// one of them is not there (any more).

var (
	link       = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	goFile     = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)
	treePath   = regexp.MustCompile(`^(internal|cmd|docs|test|tools|packaging|examples|bundle)(/[\w.-]+)+$`)
	identifier = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Za-z]\w*))?`)
)

const repository = "../.."

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	for _, file := range documents(t) {
		text := withoutBlocks(file.text)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[2], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.Dir(file.name), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", file.name, m[2])
			}
			if strings.HasSuffix(m[1], ".go") && !strings.HasSuffix(target, m[1]) {
				t.Errorf("%s calls %s %q", file.name, target, m[1])
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if !treePath.MatchString(m[1]) || strings.HasPrefix(m[1], "docs/adr/NNN") {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", file.name, m[1])
			}
		}
	}
}

func TestIdentifiersInDocumentsExist(t *testing.T) {
	declared := declarations(t)
	for _, file := range documents(t) {
		if file.name == "CHANGELOG.md" { // it tells of the past
			continue
		}
		var spans []string
		for _, m := range codeSpan.FindAllStringSubmatch(withoutBlocks(file.text), -1) {
			spans = append(spans, m[1])
		}
		for _, m := range link.FindAllStringSubmatch(file.text, -1) {
			spans = append(spans, m[1])
		}
		for _, missing := range missingIdentifiers(declared, strings.Join(spans, "\n")) {
			t.Errorf("%s names %s, which is not there", file.name, missing)
		}
	}
}

func TestFilesAndIdentifiersInPackageCommentsExist(t *testing.T) {
	declared := declarations(t)
	for pkg := range packages(t) {
		dir := filepath.Join("..", pkg)
		for _, file := range sources(t, dir) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc == nil {
				continue
			}
			text := parsed.Doc.Text()
			if !strings.HasPrefix(text, "Package "+parsed.Name.Name+" ") {
				t.Errorf("the comment of %s is not about package %s", file, parsed.Name.Name)
			}
			for _, name := range goFile.FindAllString(text, -1) {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Errorf("the comment of package %s names %s, which is not there", pkg, name)
				}
			}
			for _, missing := range missingIdentifiers(declared, text) {
				t.Errorf("the comment of package %s names %s, which is not there", pkg, missing)
			}
		}
	}
}

// Every group and its packages are listed in the doc.go of the group.
func TestGroupsListTheirPackages(t *testing.T) {
	for pkg := range packages(t) {
		group, rest, nested := strings.Cut(pkg, "/")
		if !nested || strings.Contains(rest, "/") || group == "cli" {
			continue
		}
		text := ""
		for _, file := range sources(t, filepath.Join("..", group)) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			text += parsed.Doc.Text()
		}
		if !strings.Contains(text, "\t"+rest+" ") {
			t.Errorf("the comment of group %s does not list package %s", group, rest)
		}
	}
}

func TestMissingIdentifiersAreFound(t *testing.T) {
	declared := map[string]map[string]bool{"plan": {"Next": true, "Plan": true, "Plan.Due": true}}
	got := missingIdentifiers(declared, "plan.Next, plan.Plan.Due and v1.Pod are there; plan.Last and plan.Plan.Never are not")
	if want := []string{"plan.Last", "plan.Plan.Never"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

type document struct{ name, text string }

// documents are the Markdown files of the repository, by their path in it.
func documents(t *testing.T) []document {
	t.Helper()
	var out []document
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "packaging/*.md", "test/*.md", "examples/*.md"} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(repository, file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, document{name, string(text)})
		}
	}
	if len(out) < 10 {
		t.Fatalf("found %d documents: is the repository elsewhere?", len(out))
	}
	return out
}

// withoutBlocks leaves out lines of indented and fenced code.
func withoutBlocks(text string) string {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// declarations are the names that each package of internal/ declares, and Type.Member for methods,
// fields and methods of interfaces. Packages of one name are put together.
func declarations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for pkg := range packages(t) {
		for _, file := range sources(t, filepath.Join("..", pkg)) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			names := out[parsed.Name.Name]
			if names == nil {
				names = map[string]bool{}
				out[parsed.Name.Name] = names
			}
			for _, d := range parsed.Decls {
				declare(names, d)
			}
		}
	}
	return out
}

func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		names[dotted(receiver)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[name.Name] = true
				}
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
				for _, field := range members(spec.Type) {
					for _, name := range field.Names {
						names[spec.Name.Name+"."+name.Name] = true
					}
				}
			}
		}
	}
}

func members(e ast.Expr) []*ast.Field {
	switch e := e.(type) {
	case *ast.StructType:
		return e.Fields.List
	case *ast.InterfaceType:
		return e.Methods.List
	}
	return nil
}

// missingIdentifiers returns the identifiers in text that begin with one of our packages and are
// not declared there.
func missingIdentifiers(declared map[string]map[string]bool, text string) []string {
	var out []string
	for _, m := range identifier.FindAllStringSubmatch(text, -1) {
		names, ours := declared[m[1]]
		if !ours {
			continue
		}
		full := m[2]
		if m[3] != "" {
			full += "." + m[3]
		}
		if !names[full] {
			out = append(out, m[1]+"."+full)
		}
	}
	return out
}
