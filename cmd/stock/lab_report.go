package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"example.com/stock/lab"
	labreport "example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
)

const labMatrixLong = `It reads what "stock lab run --json" wrote and asks no server.

--words keeps the words of a whole run in which everything was as predicted, and --markdown the table with its evidence. --check compares a run,
whole or a part, with words that were kept. --html is for the eye and is written whatever the run says.

Exit status: 0 done, and nothing changed; 3 something changed or cannot be kept; 1 anything else.`

// A labMatrix is what "stock lab matrix" was asked for.
type labMatrix struct {
	markdown, words, html, check, lang string
}

func labMatrixCommand() *cobra.Command {
	var m labMatrix
	cmd := &cobra.Command{
		Use: "matrix FILE", Short: "Make the matrix of failures from a run, or compare a run with it", Long: labMatrixLong, Args: cobra.ExactArgs(1),
		Example: "  stock lab run --all --json lab.json\n  stock lab matrix lab.json --html lab.html\n  stock lab matrix lab.json --check docs/failure-modes.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLanguage(m.lang); err != nil {
				return err
			}
			report, err := readReport(args[0])
			if err != nil {
				return err
			}
			return m.write(report, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.html, "html", "", "write a page with matrix, evidence and timelines to this file")
	flags.StringVar(&m.markdown, "markdown", "", "write the matrix with its evidence to this file")
	flags.StringVar(&m.words, "words", "", "write the words alone to this file, for --check")
	flags.StringVar(&m.check, "check", "", "compare the run with the words in this file")
	languageFlag(cmd, &m.lang)
	return cmd
}

func (m *labMatrix) write(report lab.Report, out io.Writer) error {
	if m.html != "" {
		if err := writeLabPage(m.html, report, m.lang); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", m.html)
	}
	matrix, err := matrixOf(report)
	if err != nil {
		return err
	}
	if m.check != "" {
		if err := checkWords(m.check, matrix); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d words are what %s says\n", len(matrix.Words()), m.check)
	}
	if m.markdown == "" && m.words == "" {
		return nil
	}
	if err := matrix.Whole(); err != nil {
		return exitError{exitVerdict, err}
	}
	for path, write := range map[string]func(io.Writer) error{
		m.markdown: matrix.WriteMarkdown,
		m.words:    func(w io.Writer) error { return labreport.WriteWords(w, matrix.Words()) },
	} {
		if path == "" {
			continue
		}
		if err := writeFile(path, write); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", path)
	}
	return nil
}

// checkWords compares a run with the words that are kept, and those with the catalogue.
func checkWords(path string, matrix labreport.Matrix) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--check: %w", err)
	}
	defer file.Close()
	kept, err := labreport.ReadWords(file)
	if err != nil {
		return fmt.Errorf("--check: %s: %w", path, err)
	}
	if wrong := append(matrix.Stale(kept), matrix.Changed(kept)...); len(wrong) > 0 {
		return exitError{exitVerdict, fmt.Errorf("%s is not what the lab says:\n  %s", path, strings.Join(wrong, "\n  "))}
	}
	return nil
}

func readReport(path string) (report lab.Report, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	if report.Version != lab.ReportVersion {
		return report, fmt.Errorf("%s: version %d of the report is not %d: run the lab again", path, report.Version, lab.ReportVersion)
	}
	return report, nil
}

func writeLabPage(path string, report lab.Report, lang string) error {
	matrix, err := matrixOf(report)
	if err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error { return matrix.WriteHTML(w, lang) })
}

// matrixOf puts a run beside the catalogue.
func matrixOf(report lab.Report) (labreport.Matrix, error) {
	scenarios, err := scenario.All()
	return labreport.Matrix{Scenarios: scenarios, Run: report}, err
}
