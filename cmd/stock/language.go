package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// languageFlag is --lang, of commands whose texts are there in both languages.
func languageFlag(cmd *cobra.Command, lang *string) {
	cmd.Flags().StringVar(lang, "lang", "en", "language of the texts: en or zh")
}

func checkLanguage(lang string) error {
	if lang != "en" && lang != "zh" {
		return errors.New("--lang: must be en or zh")
	}
	return nil
}
