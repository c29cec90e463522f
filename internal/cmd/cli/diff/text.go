package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxLine is the maximum length of a line in bytes. Clusters choose the texts.
const maxLine = 1024

// rule separates a heading from its text.
const rule = "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━\n"

// line returns a text of a cluster as one bounded line.
func line(text string) string { return foreign.Excerpt(text, maxLine) }

// plain returns a JSON document with escapes in place of characters that could control a terminal. They only occur in
// texts.
func plain(document string) string {
	var out strings.Builder
	for _, r := range document {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// isPlain reports whether a text has no characters that could control a terminal.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// textOfAll returns the text about Bundles.
func textOfAll(bundles []Bundle) string {
	var parts []string
	for _, bundle := range bundles {
		text := fmt.Sprintf("Bundle: %s\nBundleDeployments with diffs: %d\n%s", line(bundle.Name), len(bundle.Deployments), rule)
		for _, deployment := range bundle.Deployments {
			text += "\n" + indented("  ", briefly(deployment))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

// briefly returns the text about one of several BundleDeployments.
func briefly(d Deployment) string {
	text := fmt.Sprintf("BundleDeployment: %s/%s\n", line(d.Namespace), line(d.Name))
	if len(d.Modified) > 0 {
		text += fmt.Sprintf("Modified Resources (%d):\n", len(d.Modified)) + indented("  ", strings.Join(each(d.Modified, modifiedText), ""))
	}
	if len(d.NonReady) > 0 {
		text += fmt.Sprintf("Non-Ready Resources (%d):\n", len(d.NonReady)) + indented("  ", strings.Join(each(d.NonReady, nonReadyText), ""))
	}
	return text
}

// textOf returns the text about the only BundleDeployment.
func textOf(d Deployment) string {
	parts := []string{fmt.Sprintf("BundleDeployment: %s/%s\nBundle: %s\n%s", line(d.Namespace), line(d.Name), line(d.BundleName), rule)}
	if len(d.Modified) > 0 {
		parts = append(parts, "Modified Resources:\n")
		parts = append(parts, each(d.Modified, func(m fleet.ModifiedStatus) string { return indented("  ", modifiedText(m)) })...)
	}
	if len(d.NonReady) > 0 {
		parts = append(parts, "Non-Ready Resources:\n")
		parts = append(parts, each(d.NonReady, func(n fleet.NonReadyStatus) string { return indented("  ", nonReadyText(n)) })...)
	}
	return strings.Join(parts, "\n")
}

func each[T any](all []T, text func(T) string) []string {
	texts := make([]string, 0, len(all))
	for _, one := range all {
		texts = append(texts, text(one))
	}
	return texts
}

func modifiedText(m fleet.ModifiedStatus) string {
	text := resource(m.APIVersion, m.Kind, m.Namespace, m.Name)
	switch {
	case m.Missing && m.Exist:
		return text + "Status: Resource exists but is not owned by Fleet\n"
	case m.Missing:
		return text + "Status: Resource is missing (should be created)\n"
	case m.Delete:
		return text + "Status: Extra resource (should be deleted)\n"
	case m.Patch == "":
		return text + "Status: Modified\n"
	}
	return text + "Status: Modified\nPatch:\n" + indented("  ", patchText(m.Patch))
}

func nonReadyText(n fleet.NonReadyStatus) string {
	return resource(n.APIVersion, n.Kind, n.Namespace, n.Name) + "Status: Not Ready\nSummary: " + line(state.SummaryText(n.Summary)) + "\n"
}

func resource(apiVersion, kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return "Resource: " + line(kind+"."+apiVersion+" "+name) + "\n"
}

// patchText returns a patch with one line for each field. A patch that is not JSON, because it was cut for example, is
// one line.
func patchText(patch string) string {
	decoded, err := decodePatch(patch)
	if err != nil {
		return line(patch) + "\n"
	}
	text, err := json.MarshalIndent(decoded, "", "  ")
	if err != nil {
		return line(patch) + "\n"
	}
	var out bytes.Buffer
	for part := range strings.Lines(string(text)) {
		out.WriteString(line(strings.TrimSuffix(part, "\n")) + "\n")
	}
	return out.String()
}

// indented returns a text with spaces before each line.
func indented(by, text string) string {
	var out strings.Builder
	for part := range strings.Lines(text) {
		out.WriteString(by + part)
	}
	return out.String()
}
