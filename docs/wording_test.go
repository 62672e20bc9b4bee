package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// corrected are Chinese words that must not come back, and what to write instead. docs/glossary.md has the terms.
var corrected = []struct{ wrong, instead string }{
	{`碰撞证书`, "冲突证据"},
	{`内存里的一个字([^段节]|$)`, "内存里的一个变量"},
	{`理会`, "丢锁即停、无视丢锁"},
	{`没有 fence`, "没有栅栏令牌"},
	{`应答|回复|答复`, "响应"},
	{`判定`, "裁决；对 undecided：无法判定；其他：认为、判断"},
	{`证据不足|未定[^义]|无结论|没有结论`, "无法判定"},
	{`读、想、写|读—算—写`, "读—改—写"},
	{`强制[:：]`, "触发方式："},
	{`[0-9] ?[格例]`, "个用例"},
	{`出自承诺`, "依据承诺（作用域：无）"},
	{`把玩`, "供你动手试"},
	{`替身`, "内置替代"},
	{`一个名词`, "一个概念"},
	{`何处安全|无处`, "适用范围、无"},
	{`问得巧`, "谁恰好在释放时查询，谁先得"},
	{`空着重启`, "重启后数据丢失"},
	{`看得见这个圈`, "看得见这个环"},
	{`路过的行`, "扫描到的行"},
	{`羊群([^效]|$)|惊群([^）]|$)`, "羊群效应（惊群）"},
	{`仍然没有承诺`, "仍然不保证什么"},
	{`互斥锁不够用`, "进程内的锁不够用"},
	{`一次，不是两次`, "只卖一次：幂等"},
	{`查不清`, "无法判定，不算通过"},
	{`[0-9] m?s内`, "10 s 内，有空格"},
	{`：no reply`, "没有响应"},
}

// allowedWords are parts of Chinese texts in which a corrected word is right.
var allowedWords = strings.NewReplacer("无法判定", "", "不予理会", "")

// No Chinese text has a word that was corrected, whether it stands in a catalogue, a document, a page or the code.
func TestCorrectedWords(t *testing.T) {
	t.Parallel()
	wrong, every := make([]*regexp.Regexp, len(corrected)), ""
	for i, row := range corrected {
		wrong[i] = regexp.MustCompile(row.wrong)
		every += "|(?:" + row.wrong + ")"
	}
	some := regexp.MustCompile(every[1:]) // nearly all lines have none of them, and one question is cheaper than ninety
	checked := make(map[string]int)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "testdata"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir(), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		kind := filepath.Ext(path)
		if !slices.Contains([]string{".md", ".yaml", ".json", ".html", ".js", ".tmpl", ".go", ".svg"}, kind) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked[kind]++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if !slices.ContainsFunc([]byte(line), func(b byte) bool { return b >= utf8.RuneSelf }) {
				continue // no pattern is of ASCII alone, and most lines are: twenty times as fast
			}
			line = allowedWords.Replace(strings.TrimRight(line, "\n"))
			if !some.MatchString(line) {
				continue
			}
			for i, pattern := range wrong {
				if found := pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %s", path, number, found, corrected[i].instead)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, least := range map[string]int{".md": 60, ".yaml": 20, ".js": 5, ".go": 300} {
		if checked[kind] < least {
			t.Errorf("%d files of %s were checked, which cannot be all", checked[kind], kind)
		}
	}
}
