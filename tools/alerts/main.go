// Alerts makes the Prometheus rules of the service, their tests, the table of docs/alerts.md and its Chinese twin from
// one catalogue.
//
//	cd tools && go run ./alerts
package main

import (
	"embed"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"example.com/stock/internal/words"
)

//go:embed text
var files embed.FS

func main() {
	if len(os.Args) > 1 {
		log.Fatalf("usage: cd tools && go run ./alerts (it takes no arguments, got %q)", os.Args[1:])
	}
	if err := write(".."); err != nil {
		log.Fatal(err)
	}
}

// write writes every generated file below root, the folder of the service's module.
func write(root string) error {
	made, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range made {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by their paths from root. The table of failures comes from the last run of
// tools/alarms.
func generate(root string) (map[string]string, error) {
	shown, err := readMatrix(root)
	if err != nil {
		return nil, err
	}
	texts, err := words.ReadTexts(files, "text")
	if err != nil {
		return nil, err
	}
	alerts := catalogue()
	for i := range alerts {
		if err := alerts[i].say(texts); err != nil {
			return nil, err
		}
	}
	return map[string]string{
		"deploy/prometheus/stock.rules.yml": rules(alerts),
		"deploy/prometheus/tests.yml":       tests(alerts),
		"docs/alerts.md":                    table(alerts, shown, texts, words.English),
		"docs/alerts.zh-CN.md":              table(alerts, shown, texts, words.Chinese),
	}, nil
}

// say fills in the texts of an alert.
func (a *alert) say(texts words.Texts) error {
	for part, to := range map[string]*words.Text{
		"summary": &a.Summary, "condition": &a.Condition, "customers": &a.Customers,
	} {
		text, ok := texts["alerts."+a.Name+"."+part]
		if !ok {
			return fmt.Errorf("text: there is no alerts.%s.%s", a.Name, part)
		}
		*to = text
	}
	return nil
}
