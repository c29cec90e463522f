package charts_test

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/config"
)

// networks returns valid and invalid texts of networks. Those of IPv6 have up to nine groups, with and without "::" at each
// position and an IPv4 address at the end.
func networks() []string {
	texts := []string{
		"", "/", "::", "10.0.0.1", "10.96.0.0/12", "0.0.0.0/0", "10.0.0.1/32", "10.0.0.0/33", "10.0.0.0/08", "10.0.0/8", "10.0.0.0.0/8", "256.0.0.0/8",
		"010.0.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", " 10.0.0.0/8", "10.0.0.0/8\n", "10/8", "a.b.c.d/8", "1::2::3/64", ":::/64", "1:::2/64",
		":1::2/64", "1::2:/64", "1::12345/64", "1::g/64", "FD00::aB/64", "::/0", "::/128", "::/129", "::/064", "::/99", "::/100", "::/119", "fe80::1%eth0/64",
		"fd00:10:96/112", "1.2.3.4:5::/64", "::1.2.3.4:5/64", "::256.2.3.4/64", "::01.2.3.4/64", "::1.2.3/64", "::1.2.3.4.5/64", "::12345/64", "[::1]/64",
	}
	for groups := range 10 {
		for _, tail := range [][]string{nil, {"1.2.3.4"}} {
			parts := append(slices.Repeat([]string{"fd0"}, groups), tail...)
			texts = append(texts, strings.Join(parts, ":")+"/64")
			for gap := range len(parts) + 1 {
				texts = append(texts, strings.Join(parts[:gap], ":")+"::"+strings.Join(parts[gap:], ":")+"/64")
			}
		}
	}
	return texts
}

// selectors returns label selectors with valid and invalid keys, values and operators.
func selectors() (all []map[string]any) {
	for _, prefix := range []string{"", "/", "a/", "A/", "1.b-c/", "-a/", "a-/", "a..b/", "a/b/", "a_b/", strings.Repeat("a", 253) + "/", strings.Repeat("a", 254) + "/"} {
		for _, name := range []string{"", "a", "A_b.C-1", "a b", "-a", "a.", "ä", "a\n", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
			all = append(all, map[string]any{"matchLabels": map[string]any{prefix + name: "x"}},
				map[string]any{"matchExpressions": []any{map[string]any{"key": prefix + name, "operator": "Exists"}}})
		}
	}
	for _, value := range []string{"", "a", "A_b.C-1", "a b", "-a", "a.", "org/app", "ä", "a\n", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		all = append(all, map[string]any{"matchLabels": map[string]any{"repo": value}})
		for _, operator := range []string{"In", "NotIn", "Exists", "Is"} {
			all = append(all, map[string]any{"matchExpressions": []any{map[string]any{"key": "repo", "operator": operator, "values": []any{"b", value}}}})
		}
	}
	return all
}

// TestSchema_AcceptsExactlyWhatTheControllersAccept compares the schema with config.Parse. The controllers reject a whole
// configuration with an invalid network or selector, and do not start.
func TestSchema_AcceptsExactlyWhatTheControllersAccept(t *testing.T) {
	var examples []map[string]any
	for _, network := range networks() {
		examples = append(examples, map[string]any{"refusedKubeconfigCIDRs": []any{network}})
	}
	for i, selector := range selectors() {
		name := []string{"namespaceSelector", "clusterSelector"}[i%2]
		examples = append(examples, map[string]any{"capi": map[string]any{name: selector}})
	}
	loaded, err := agentchart.Load(charts.FS, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, values := range examples {
		text := marshal(t, values)
		_, _, parse := config.Parse([]byte(text), config.Config{})
		schema := chartutil.ValidateAgainstSchema(loaded, values)
		if (parse == nil) != (schema == nil) {
			t.Errorf("%sthe controllers: %v\nthe schema: %v", text, parse, schema)
		}
		if schema == nil {
			accepted++
		}
	}
	if accepted < 50 || accepted > len(examples)-50 {
		t.Errorf("the schema accepts %d of %d examples", accepted, len(examples))
	}
}
