package outcome

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"sort"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// shortestRedacted is the minimum length of a redacted value. Shorter values say too little to be a secret, and
	// are too likely to be part of an ordinary word.
	shortestRedacted = 6
	// redacted replaces a value.
	redacted = "<redacted>"
)

// Redaction removes confidential values from messages. The zero value removes nothing.
type Redaction struct{ replacer *strings.Replacer }

// NewRedaction returns a redaction of every string in the given values, and of each of their lines. Helm includes
// values in its messages.
func NewRedaction(values ...map[string]any) Redaction {
	found := map[string]bool{}
	for _, value := range values {
		collectTexts(value, found)
	}
	var texts []string
	for text := range found {
		texts = append(texts, text)
	}
	// Longest first, because a text may be part of another.
	sort.Slice(texts, func(i, j int) bool {
		if len(texts[i]) != len(texts[j]) {
			return len(texts[i]) > len(texts[j])
		}
		return texts[i] < texts[j]
	})
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, redacted)
	}
	if len(pairs) == 0 {
		return Redaction{}
	}
	return Redaction{replacer: strings.NewReplacer(pairs...)}
}

func (r Redaction) Clean(text string) string {
	if r.replacer == nil {
		return text
	}
	return r.replacer.Replace(text)
}

// Wrap returns err with confidential values redacted from its message. errors.Is and errors.As still work.
func (r Redaction) Wrap(err error) error {
	if err == nil {
		return nil
	}
	text := r.Clean(err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, cause: err}
}

type redactedError struct {
	text  string
	cause error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.cause }

// An API server repeats the content of a patch that it refuses, quoted, before the cause.
var (
	unknownField    = regexp.MustCompile(`(?s)^.*strict decoding error: (.*)$`) // not that of a webhook
	repeatedContent = regexp.MustCompile(`(?s)^ *"" is invalid: patch: Invalid value: ".*": `)
)

// webhookDenial begins the answer of an admission webhook that refuses an object.
const webhookDenial = "admission webhook "

// IsUnknownField reports whether an API server has refused an object because of a field that it does not know.
func IsUnknownField(err error) bool {
	var refusal apierrors.APIStatus
	return errors.As(err, &refusal) && unknownField.MatchString(err.Error()) && !strings.HasPrefix(err.Error(), webhookDenial)
}

// WithoutContent returns the refusal of an API server without the object's content. For an unknown field, it names only the field.
// errors.Is and errors.As still work.
func WithoutContent(err error) error {
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) {
		return err
	}
	text := repeatedContent.ReplaceAllLiteralString(err.Error(), "")
	if IsUnknownField(err) {
		text = unknownField.ReplaceAllString(text, "$1: correct or remove the field")
	}
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, cause: err}
}

func collectTexts(value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			collectTexts(inner, found)
		}
	case []any:
		for _, inner := range value {
			collectTexts(inner, found)
		}
	case nil, bool:
	default:
		text, isText := value.(string)
		if number, err := json.Marshal(value); err == nil && !isText {
			text = string(number)
		}
		if len(text) >= shortestRedacted {
			found[base64.StdEncoding.EncodeToString([]byte(text))] = true
		}
		collectForms(text, found)
		for _, line := range strings.Split(text, "\n") {
			collectForms(strings.TrimSpace(line), found)
		}
	}
}

// collectForms collects a text as it is, and as Go and JSON quote it.
func collectForms(text string, found map[string]bool) {
	if len(text) < shortestRedacted {
		return
	}
	found[text] = true
	quoted := []string{strconv.Quote(text)}
	if inJSON, err := json.Marshal(text); err == nil {
		quoted = append(quoted, string(inJSON))
	}
	for _, form := range quoted {
		found[form[1:len(form)-1]] = true
	}
}
