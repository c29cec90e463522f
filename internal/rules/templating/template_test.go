package templating

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestTemplate(t *testing.T) {
	tests := map[string]struct {
		in             string
		templateValues string
		want           string
	}{
		"no helm: an empty one is added":           {`{}`, "", `{"helm":{}}`},
		"no values: empty ones are added":          {`{"helm":{"chart":"c"}}`, "", `{"helm":{"chart":"c","values":{}}}`},
		"null values: empty ones":                  {`{"helm":{"values":null}}`, "", `{"helm":{"values":{}}}`},
		"values without templates stay":            {`{"helm":{"values":{"a":"b","c":[1,{"d":null}]}}}`, "", `{"helm":{"values":{"a":"b","c":[1,{"d":null}]}}}`},
		"the cluster's names":                      {`{"helm":{"values":{"a":"${ .ClusterNamespace }/${ .ClusterName }"}}}`, "", `{"helm":{"values":{"a":"ws/east"}}}`},
		"labels":                                   {`{"helm":{"values":{"a":"${ .ClusterLabels.env }"}}}`, "", `{"helm":{"values":{"a":"dev"}}}`},
		"labels of Fleet":                          {`{"helm":{"values":{"a":"${ get .ClusterLabels \"fleet.cattle.io/cluster\" }"}}}`, "", `{"helm":{"values":{"a":"east"}}}`},
		"labels that templates do not see":         {`{"helm":{"values":{"a":"${ keys .ClusterLabels | sortAlpha | join \",\" }"}}}`, "", `{"helm":{"values":{"a":"env,fleet.cattle.io/cluster,management.cattle.io/cluster-display-name"}}}`},
		"annotations of users":                     {`{"helm":{"values":{"a":"${ keys .ClusterAnnotations | join \",\" }"}}}`, "", `{"helm":{"values":{"a":"note"}}}`},
		"the cluster's values":                     {`{"helm":{"values":{"a":"${ .ClusterValues.x.y }"}}}`, `{"x":{"y":7}}`, `{"helm":{"values":{"a":7}}}`},
		"a result is read as YAML":                 {`{"helm":{"values":{"a":"${ list 1 2 | toJson }"}}}`, "", `{"helm":{"values":{"a":[1,2]}}}`},
		"whole numbers keep all their digits":      {`{"helm":{"values":{"a":9007199254740993}}}`, "", `{"helm":{"values":{"a":9007199254740993}}}`},
		"a template in backticks stays":            {"{\"helm\":{\"values\":{\"a\":\"${`${X}`}\"}}}", "", `{"helm":{"values":{"a":"${X}"}}}`},
		"helm's own templates stay":                {`{"helm":{"values":{"a":"{{ .Values.x }}"}}}`, "", `{"helm":{"values":{"a":"{{ .Values.x }}"}}}`},
		"functions of sprig":                       {`{"helm":{"values":{"a":"${ upper .ClusterName }"}}}`, "", `{"helm":{"values":{"a":"EAST"}}}`},
		"templateValues lie over values":           {`{"helm":{"values":{"a":{"x":1},"b":2},"templateValues":{"a":"z: ${ .ClusterName }"}}}`, "", `{"helm":{"values":{"a":{"z":"east"},"b":2},"templateValues":{"a":"z: ${ .ClusterName }"}}}`},
		"templateValues alone":                     {`{"helm":{"templateValues":{"a":"- 1\n- ${ .ClusterName }"}}}`, "", `{"helm":{"values":{"a":[1,"east"]},"templateValues":{"a":"- 1\n- ${ .ClusterName }"}}}`},
		"an empty templateValue is null":           {`{"helm":{"templateValues":{"a":""}}}`, "", `{"helm":{"values":{"a":null},"templateValues":{"a":""}}}`},
		"disablePreProcess leaves templates":       {`{"helm":{"disablePreProcess":true,"values":{"a":"${ .Nope }"},"templateValues":{"b":"${ .Nope }"}}}`, "", `{"helm":{"disablePreProcess":true,"values":{"a":"${ .Nope }"},"templateValues":{"b":"${ .Nope }"}}}`},
		"a label by its path":                      {`{"helm":{"values":{"a":"global.fleet.clusterLabels.env"}}}`, "", `{"helm":{"values":{"a":"dev"}}}`},
		"a label by its path, also unprocessed":    {`{"helm":{"disablePreProcess":true,"values":{"a":"global.fleet.clusterLabels.env"}}}`, "", `{"helm":{"disablePreProcess":true,"values":{"a":"dev"}}}`},
		"a missing label by its path is empty":     {`{"helm":{"values":{"a":"global.fleet.clusterLabels.none"}}}`, "", `{"helm":{"values":{"a":""}}}`},
		"paths in objects and in objects in lists": {`{"helm":{"values":{"a":{"b":"global.fleet.clusterLabels.env"},"c":[{"d":"global.fleet.clusterLabels.env"}]}}}`, "", `{"helm":{"values":{"a":{"b":"dev"},"c":[{"d":"dev"}]}}}`},
		"a path as a plain element stays":          {`{"helm":{"values":{"a":["global.fleet.clusterLabels.env"]}}}`, "", `{"helm":{"values":{"a":["global.fleet.clusterLabels.env"]}}}`},
		"a path in the middle stays":               {`{"helm":{"values":{"a":"x global.fleet.clusterLabels.env"}}}`, "", `{"helm":{"values":{"a":"x global.fleet.clusterLabels.env"}}}`},
		"a template that writes nothing":           {`{"helm":{"values":{"${ if false }a":"b${ end }"}}}`, "", `{"helm":{"values":{}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := targetingtest.Options(t, test.in)
			c := targetingtest.Templated(t, test.templateValues)
			before := c.DeepCopy()
			if err := NewTemplater().Template(&got, c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(targetingtest.Options(t, test.want), got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, c); diff != "" {
				t.Errorf("the Cluster was changed:\n%s", diff)
			}
		})
	}
}

func TestTemplate_ClusterWithoutLabels(t *testing.T) {
	for name, c := range map[string]*fleet.Cluster{
		"no labels":            targetingtest.Cluster("east"),
		"only labels of tools": targetingtest.Cluster("east", targetingtest.Labelled("objectset.rio.cattle.io/hash", "0", "kubectl.kubernetes.io/x", "y")),
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{`{}`, `{"helm":{"values":{"a":"${ .ClusterName }","b":"global.fleet.clusterLabels.env"}}}`} {
				got := targetingtest.Options(t, text)
				if err := NewTemplater().Template(&got, c); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(targetingtest.Options(t, text), got); diff != "" {
					t.Errorf("options were changed (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// action is a value with one action.
func action(action string) string {
	text, _ := json.Marshal("${ " + action + " }") // texts always encode
	return `{"helm":{"values":{"a":` + string(text) + `}}}`
}

// outputInManyPlaces has many templateValues, each of which writes less than all together may.
func outputInManyPlaces() string {
	var out []string
	for i := range 100 {
		out = append(out, fmt.Sprintf(`"k%d":"${ $s := repeat 100000 \"x\" }${ range until 30 }${ $s }${ end }"`, i))
	}
	return `{"helm":{"templateValues":{` + strings.Join(out, ",") + `}}}`
}

func TestTemplateErrors(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 52) + `1` + strings.Repeat(`}`, 52)
	inLists := strings.Repeat(`{"a":[`, 52) + strings.Repeat(`]}`, 52)
	listsInLists := strings.Repeat("[", 250) + strings.Repeat("]", 250)
	tests := map[string]struct {
		in   string
		want string
		is   error
	}{
		"lists in lists, unprocessed":    {`{"helm":{"disablePreProcess":true,"values":{"a":` + listsInLists + `}}}`, "", ErrValuesTooDeep},
		"a missing label":                {`{"helm":{"values":{"a":"${ .ClusterLabels.none }"}}}`, `map has no entry for key "none"`, nil},
		"a missing value":                {`{"helm":{"values":{"a":"${ .ClusterValues.none }"}}}`, `map has no entry for key "none"`, nil},
		"a template that is not one":     {`{"helm":{"values":{"a":"${ if }"}}}`, "missing value for if", nil},
		"an unknown function":            {`{"helm":{"values":{"a":"${ nope }"}}}`, `function "nope" not defined`, nil},
		"the process's environment":      {`{"helm":{"values":{"a":"${ env \"HOME\" }"}}}`, `function "env" not defined`, nil},
		"the environment in a text":      {`{"helm":{"values":{"a":"${ expandenv \"$HOME\" }"}}}`, `function "expandenv" not defined`, nil},
		"the network":                    {`{"helm":{"values":{"a":"${ getHostByName \"localhost\" }"}}}`, `function "getHostByName" not defined`, nil},
		"a template that fails itself":   {`{"helm":{"values":{"a":"${ fail \"no\" }"}}}`, "no", nil},
		"a result that is not YAML":      {`{"helm":{"values":{"a":"${ \"\\n  - [\" }"}}}`, "yaml", nil},
		"a result that is not an object": {`{"helm":{"values":{"${ \"- x\" }${/*":"*/}"}}}`, "gives a []interface {} instead of an object", nil},
		"a templateValue":                {`{"helm":{"templateValues":{"ok":"1","key":"${ .Nope }"}}}`, "helm.templateValues.key: ", nil},
		"values nested too deep":         {`{"helm":{"values":` + deep + `}}`, "", ErrValuesTooDeep},
		"lists nested too deep":          {`{"helm":{"values":` + inLists + `}}`, "", ErrValuesTooDeep},
		"too much output":                {`{"helm":{"values":{"a":"${ range until 1000 }${ repeat 10000 \"x\" }${ end }"}}}`, "", ErrRenderedTooLarge},
		"too long a text":                {`{"helm":{"values":{"a":"${ repeat 1000000000 \"x\" | len }"}}}`, "", ErrTooManyElements},
		"too wide an indentation":        {`{"helm":{"values":{"a":"${ indent 1000000000 \"x\" | len }"}}}`, "", ErrTooManyElements},
		"too wide a new indentation":     {`{"helm":{"values":{"a":"${ nindent 1000000000 \"x\" | len }"}}}`, "", ErrTooManyElements},
		"too long a list":                {`{"helm":{"values":{"a":"${ until 1000000000 | len }"}}}`, "", ErrTooManyElements},
		"too long a list of steps":       {`{"helm":{"values":{"a":"${ untilStep 0 1000000000 1 | len }"}}}`, "", ErrTooManyElements},
		"too long a sequence":            {`{"helm":{"values":{"a":"${ seq 1 1000000000 | len }"}}}`, "", ErrTooManyElements},
		"too many random characters":     {`{"helm":{"values":{"a":"${ randAlphaNum 1000000000 | len }"}}}`, "", ErrTooManyElements},
		"a loop without an end":          {`{"helm":{"values":{"a":"${ range 1000000000000 }${ end }"}}}`, "", ErrTooMuchWork},
		"loops in loops":                 {`{"helm":{"values":{"a":"${ $l := until 100000 }${ range $l }${ if true }${ range $l }${ end }${ end }${ end }"}}}`, "", ErrTooMuchWork},
		"a loop in a template":           {`{"helm":{"values":{"a":"${ define \"x\" }${ range 1000000000000 }${ end }${ end }${ with 1 }${ template \"x\" }${ end }"}}}`, "", ErrTooMuchWork},
		"a loop in a templateValue":      {`{"helm":{"templateValues":{"a":"${ range 1000000000000 }${ end }"}}}`, "", ErrTooMuchWork},
		"a template that calls itself":   {`{"helm":{"values":{"a":"${ define \"x\" }${ template \"x\" }${ template \"x\" }${ end }${ template \"x\" }"}}}`, "", ErrTooMuchWork},
		"a text that doubles":            {`{"helm":{"values":{"a":"${ $s := \"xx\" }${ range until 64 }${ $s = print $s $s }${ end }"}}}`, "", ErrTooMuchWork},
		"a list that doubles":            {`{"helm":{"values":{"a":"${ $l := list 1 }${ range until 64 }${ $l = concat $l $l }${ end }"}}}`, "", ErrTooMuchWork},
		"a list of itself, doubled":      {`{"helm":{"values":{"a":"${ $l := list 1 }${ range until 64 }${ $l = list $l $l }${ end }${ toJson $l }"}}}`, "", ErrTooMuchWork},
		"an object within itself":        {`{"helm":{"values":{"a":"${ $d := dict }${ $d = set $d \"d\" $d }${ $d }"}}}`, "", ErrTooMuchWork},
		"many slow functions":            {`{"helm":{"values":{"a":"${ range until 100 }${ bcrypt \"x\" }${ end }"}}}`, "", ErrTooMuchWork},
		"many private keys":              {action(`range until 3 }${ genPrivateKey "rsa" | len }${ end`), "", ErrTooMuchWork},
		"many certificates":              {action(`range until 4 }${ genCA "a" 1 }${ end`), "", ErrTooMuchWork},
		"a replacement everywhere":       {action(`$s := repeat 4000000 "x" }${ replace "" $s $s | len`), "", ErrTooManyElements},
		"a long separator":               {action(`$s := repeat 4000000 "x" }${ until 1000 | join $s | len`), "", ErrTooManyElements},
		"a long line break":              {action(`$s := repeat 100000 "x" }${ wrapWith 1 $s $s | len`), "", ErrTooManyElements},
		"a wide number":                  {action(`printf "%1000000d%1000000d%1000000d%1000000d%1000000d" 1 1 1 1 1 | len`), "", ErrTooManyElements},
		"a width from an argument":       {action(`printf (repeat 10 "%*d") 1000000 1 1000000 1 1000000 1 1000000 1 1000000 1 | len`), "", ErrTooManyElements},
		"an argument again and again":    {action(`printf (repeat 100000 "%[1]s") (repeat 100000 "x") | len`), "", ErrTooManyElements},
		"an expression's replacement":    {action(`$s := repeat 1000000 "x" }${ regexReplaceAll "x" $s $s | len`), "", ErrTooManyElements},
		"an expression's references":     {action(`regexReplaceAll "x+" (repeat 1000000 "x") (repeat 1000 "$0") | len`), "", ErrTooManyElements},
		"a large expression":             {action(`regexMatch (repeat 1000 "x{1000}") "x"`), "", ErrTooManyElements},
		"very much randomness":           {action(`range until 20 }${ randAlphaNum 100000 | len }${ end`), "", ErrTooMuchWork},
		"a negative length":              {action(`range 1000000000 }${ randAlphaNum -1000 | len }${ end`), "", ErrTooMuchWork},
		"a slow expression":              {action(`regexMatch (repeat 10 "x{0,1000}") (repeat 1000000 "x")`), "", ErrTooMuchWork},
		"a text in many parts":           {action(`repeat 4000000 "x" | split "" | len`), "", ErrTooMuchWork},
		"a list compared with itself":    {action(`until 100000 | uniq | len`), "", ErrTooMuchWork},
		"many lists of lists":            {action(`(repeat 3000000 "[" | cat) | fromJson`), "", ErrTooMuchWork},
		"texts in one another":           {action(`$l := list (until 30000) }${ range until 900 }${ $l = list $l }${ end }${ toPrettyJson $l | len`), "", ErrTooMuchWork},
		"blocks in blocks":               {`{"helm":{"values":{"a":"` + strings.Repeat("${ if 1 }", 200) + strings.Repeat("${ end }", 200) + `"}}}`, "", ErrTooMuchWork},
		"too many actions":               {`{"helm":{"values":{"a":"` + strings.Repeat("${ if 1 }", 20_000) + strings.Repeat("${ end }", 20_000) + `"}}}`, "", ErrTooMuchWork},
		"output in many places":          {outputInManyPlaces(), "", ErrRenderedTooLarge},
		"lists in lists":                 {`{"helm":{"values":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}}`, "", ErrValuesTooDeep},
		"a long list deep down":          {`{"helm":{"values":{"a":` + strings.Repeat("[", 150) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", 150) + `}}}`, "", ErrRenderedTooLarge},
		"too many random bytes":          {`{"helm":{"values":{"a":"${ randBytes 1000000000 | len }"}}}`, "", ErrTooManyElements},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := targetingtest.Options(t, test.in)
			err := NewTemplater().Template(&got, targetingtest.Templated(t, ""))
			if err == nil {
				t.Fatalf("no error; options are %+v", got)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %q, want one with %q", err, test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v is not %v", err, test.is)
			}
		})
	}
}

func TestTemplate_FunctionsWithinTheirLimits(t *testing.T) {
	tests := map[string]string{
		`${ repeat 2 "ab" }`:          "abab",
		`${ trunc 100000000 "ab" }`:   "ab",
		`${ indent 2 "ab" | trim }`:   "ab",
		`${ nindent 2 "ab" | trim }`:  "ab",
		`${ until 3 | join "" }x`:     "012x",
		`${ untilStep 0 6 2 | len }x`: "3x",
		`${ seq 3 }`:                  "1 2 3",
		`${ randAlpha 5 | len }x`:     "5x",
		`${ randBytes 3 | len }x`:     "4x",

		`${ replace "a" "bc" "banana" }`:                                         "bbcnbcnbc",
		`${ wrapWith 3 "|" "ab cd ef" }`:                                         "ab|cd|ef",
		`${ printf "%05d %[1]x" 10 }`:                                            "00010 a",
		`${ printf "%*d" 5 1 | trim }x`:                                          "1x",
		`${ regexReplaceAll "(a+)b" "aab" "<$1${1}>" }`:                          "<aaaa>",
		`${ regexReplaceAll "x+" (repeat 100000 "x") (repeat 1000 "y") | len }x`: "1000x",
		`${ regexSplit "," "a,b" -1 | join " " }`:                                "a b",
		`${ regexMatch "^[a-z0-9-]{1,63}$" .ClusterName }x`:                      "truex",
		`${ split "," "a,b" | len }x`:                                            "2x",
		`${ splitn "," 2 "a,b,c" | len }x`:                                       "2x",
		`${ list 1 1 2 | uniq | len }x`:                                          "2x",
		`${ without (list 1 2) 1 | len }x`:                                       "1x",
		`${ (fromJson "{\"a\":[1]}").a | len }x`:                                 "1x",
		`${ mulf 1.5 2 }x`:                                                       "3x",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			in := fleet.BundleDeploymentOptions{Helm: targetingtest.Helm("a", text)}
			if err := NewTemplater().Template(&in, targetingtest.Templated(t, "")); err != nil {
				t.Fatal(err)
			}
			if got, _ := in.Helm.Values.Data["a"].(string); !strings.HasPrefix(got, want) {
				t.Errorf("%s = %v, want %s", text, in.Helm.Values.Data["a"], want)
			}
		})
	}
}
