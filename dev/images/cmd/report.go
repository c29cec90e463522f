package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fleet-hub/fleet/dev/images"
)

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("unknown --output %q: use table or json", output)
	}
	return nil
}

// report prints a result as a table or as JSON.
func report(out io.Writer, output string, result any, table func() string) error {
	text := []byte(table())
	if output == "json" {
		encoded, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
		text = append(encoded, '\n')
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func table(made []images.Archived) string {
	rows := [][]string{{"IMAGE", "PLATFORM", "DOWNLOAD", "UNPACKED", "DIGEST"}}
	for _, image := range made {
		rows = append(rows, []string{image.Name, "all", "", "", image.Digest})
		for _, platform := range image.Platforms {
			rows = append(rows, []string{"", platform.Platform, megabytes(platform.Compressed), megabytes(platform.Unpacked), platform.Digest})
		}
	}
	return align(rows)
}

func pushedTable(pushed []images.Pushed) string {
	rows := [][]string{{"PUSHED", "DIGEST"}}
	for _, image := range pushed {
		rows = append(rows, []string{image.Name, image.Digest})
	}
	return align(rows)
}

func align(rows [][]string) string {
	var text strings.Builder
	writer := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(writer, strings.Join(row, "\t")) // a builder accepts every write
	}
	_ = writer.Flush() // see above
	return text.String()
}

// megabytes formats a size in millions of bytes, the unit of registries.
func megabytes(bytes int64) string {
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
