package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// servicesFolder is the folder of the definitions below MACHINE_ROOT.
const servicesFolder = "etc/services"

const (
	// maxServices limits the services of a machine.
	maxServices = 32
	// maxDefinition limits a definition in bytes.
	maxDefinition = 64 << 10
)

// definition is the content of etc/services/NAME.json: a program with its arguments.
type definition struct {
	Command []string `json:"command"`
}

var serviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// reservedNames are names of the machine's own logs.
func reservedNames() []string { return []string{"bootstrap", "machine"} }

func checkName(name string) error {
	if !serviceName.MatchString(name) || slices.Contains(reservedNames(), name) {
		return fmt.Errorf("%.80q cannot be the name of a service: use up to 63 lower case letters, digits and hyphens, but not %s",
			name, strings.Join(reservedNames(), " or "))
	}
	return nil
}

// readDefinitions reads all definitions. It returns the valid ones and joins the errors of the others.
func readDefinitions(root *os.Root) (map[string]definition, error) {
	folder, err := root.Open(servicesFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the services: %w", err)
	}
	entries, err := folder.ReadDir(10 * maxServices)
	_ = folder.Close() // the folder is only read
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the services: %w", err)
	}
	found := map[string]definition{}
	var problems []error
	for _, entry := range entries {
		name, isJSON := strings.CutSuffix(entry.Name(), ".json")
		if !isJSON {
			continue
		}
		d, err := readDefinition(root, name)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("service %.80q: %w", name, err))
		case len(found) == maxServices:
			return found, errors.Join(append(problems, fmt.Errorf("more than %d services; the others are ignored", maxServices))...)
		default:
			found[name] = d
		}
	}
	return found, errors.Join(problems...)
}

func readDefinition(root *os.Root, name string) (definition, error) {
	if err := checkName(name); err != nil {
		return definition{}, err
	}
	file, err := root.Open(path.Join(servicesFolder, name+".json"))
	if err != nil {
		return definition{}, err
	}
	defer func() { _ = file.Close() }() // the file is only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return definition{}, errors.New("its definition is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(file, maxDefinition+1))
	if err != nil {
		return definition{}, err
	}
	return decodeDefinition(content)
}

func decodeDefinition(content []byte) (definition, error) {
	var d definition
	if len(content) > maxDefinition {
		return d, fmt.Errorf("its definition has more than %d bytes", maxDefinition)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return d, fmt.Errorf("its definition is invalid: %w", err)
	}
	if len(d.Command) == 0 || d.Command[0] == "" || slices.ContainsFunc(d.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return d, errors.New("its definition has no valid command")
	}
	return d, nil
}
