;; Reads Seatbelt profiles on any system and says what their rules decide. Guile 3 (Debian: guile-3.0).
;;   guile --no-auto-compile sbpl-check.scm PROFILE.sb [-D KEY=VALUE]... [OPERATION PATH EXPECT]...
;; EXPECT is allow or deny. Exit 0: the profile loads and every expectation holds; 1: not; 2: the profile does not load.
;;   guile --no-auto-compile sbpl-check.scm --batch
;; reads any number of these from stdin and answers each with one line:
;;   (load LENGTH ((KEY . VALUE) ...))          loaded, or: failed WHY; the profile, of so many characters, is on the next lines
;;   (ask OPERATION ((ATTRIBUTE . VALUE) ...))  allow, deny, depends, or: deny ERRNO
;;
;; A bracket that is missing, an operation, a filter or a constant that it does not know, a filter that does not go with an
;; operation, a parameter that is not set or not used: all of these keep a profile from loading. The decisions are this
;; file's model (the last rule that matches decides; the filters of a rule are alternatives), not Apple's: it guards a
;; generator of profiles against mistakes, it does not show that macOS enforces anything. It knows the part of the language
;; that hookjail writes, and is strict about it; a real Mac knows more.
(use-modules (ice-9 match) (ice-9 textual-ports) (srfi srfi-1) (srfi srfi-11))
(set-port-encoding! (current-input-port) "UTF-8")
(set-port-encoding! (current-output-port) "UTF-8")

;; Operations by what a rule about them can ask for.
(define path-operations
  '(file-clone file-ioctl file-link file-map-executable file-mount file-read-data file-read-metadata file-read-xattr
    file-revoke file-search file-test-existence file-write-acl file-write-create file-write-data file-write-flags
    file-write-mode file-write-owner file-write-setugid file-write-times file-write-unlink file-write-xattr process-exec
    process-exec-interpreter))
(define network-operations '(network-bind network-inbound network-outbound))
(define target-operations
  '(process-info-dirtycontrol process-info-listpids process-info-pidinfo process-info-pidfdinfo process-info-setcontrol
    signal))
(define sysctl-operations '(sysctl-read sysctl-write))
(define service-operations '(mach-lookup mach-register))
(define plain-operations
  '(appleevent-send authorization-right-obtain distributed-notification-post dynamic-code-generation hid-control
    iokit-get-properties iokit-open ipc-posix-sem ipc-posix-shm-read-data ipc-posix-shm-write-create ipc-sysv-msg
    ipc-sysv-sem ipc-sysv-shm job-creation lsopen mach-priv-task-port mach-task-name nvram-delete nvram-get nvram-set
    process-fork pseudo-tty syscall-unix system-acct system-audit system-info system-privilege system-reboot
    system-socket user-preference-read user-preference-write))
(define operations
  (append path-operations network-operations target-operations sysctl-operations service-operations plain-operations))

;; Which operations each filter goes with.
(define (goes-with? filter operation)
  (case filter
    ((literal subpath) (or (memq operation path-operations) (eq? operation 'network-outbound)))
    ((vnode-type) (memq operation path-operations))
    ((remote) (eq? operation 'network-outbound))
    ((target) (memq operation target-operations))
    ((sysctl-name sysctl-name-prefix) (memq operation sysctl-operations))
    ((global-name) (memq operation service-operations))
    ((syscall-number) (eq? operation 'syscall-unix))
    (else #f)))
(define constants
  '((vnode-type BLOCK-DEVICE CHARACTER-DEVICE DIRECTORY FIFO REGULAR-FILE SOCKET SYMLINK TTY)
    (remote ip tcp udp unix-socket)
    (target self others same-sandbox children pgrp)
    (syscall-number SYS_posix_spawn SYS_setpgid SYS_setsid SYS_socket)
    (errno EACCES ENOSYS EPERM)))

(define (wrong . why) (throw 'profile (call-with-output-string (lambda (port) (for-each (lambda (w) (display w port) (display " " port)) why)))))
(define (constant kind name)
  (if (memq name (cdr (assq kind constants))) name (wrong "no such" kind ":" name)))

;; What is loaded: the default, and the rules, last first. A rule is (DECISION ERRNO NAMED MEANT FILTERS): the operations it
;; names, and those it means by a `*`.
(define base #f)
(define rules '())
(define parameters '())
(define used '())

(define (text value)
  (match value
    ((? string? s) s)
    (('param (? string? key))
     (set! used (cons key used))
     (or (assoc-ref parameters key) (wrong "unset parameter" key)))
    (_ (wrong "neither a string nor a parameter:" value))))
(define (path value)
  (let ((p (text value)))
    (if (string-prefix? "/" p) p (wrong "no absolute path:" p))))
(define expanded (make-hash-table))
(define (expand pattern)
  (or (hashq-ref expanded pattern)
      (let* ((name (symbol->string pattern))
             (found (if (string-suffix? "*" name)
                        (filter (lambda (o) (string-prefix? (string-drop-right name 1) (symbol->string o))) operations)
                        (filter (lambda (o) (eq? pattern o)) operations))))
        (if (null? found) (wrong "unknown operation" name))
        (hashq-set! expanded pattern found)
        found)))

;; A filter becomes a procedure of a question's attributes. `about` are the operations of its rule.
(define (compile about form)
  (define (check name)
    (for-each (lambda (o) (or (goes-with? name o) (wrong "the filter" name "does not go with" o))) about))
  (define (named name attribute ok?)
    (check name)
    (lambda (question) (let ((value (assq-ref question attribute))) (and value (ok? value)))))
  (match form
    (('literal value) (let ((p (path value))) (named 'literal 'path (lambda (asked) (string=? asked p)))))
    (('subpath value)
     (let* ((p (path value)) (below (string-append p "/")))
       (if (string-suffix? "/" p) (wrong "a slash at the end matches nothing:" p))
       (named 'subpath 'path (lambda (asked) (or (string=? asked p) (string-prefix? below asked))))))
    (('vnode-type name)
     (let ((type (constant 'vnode-type name))) (named 'vnode-type 'vnode-type (lambda (asked) (eq? asked type)))))
    (('remote name) (let ((to (constant 'remote name))) (named 'remote 'remote (lambda (asked) (eq? asked to)))))
    (('target name)
     (let ((whom (constant 'target name)))
       (named 'target 'target (lambda (asked) (or (eq? asked whom) (and (eq? asked 'self) (eq? whom 'same-sandbox)))))))
    (('sysctl-name (? string? name)) (named 'sysctl-name 'sysctl (lambda (asked) (string=? asked name))))
    (('sysctl-name-prefix (? string? prefix))
     (named 'sysctl-name-prefix 'sysctl (lambda (asked) (string-prefix? prefix asked))))
    (('global-name (? string? name)) (named 'global-name 'service (lambda (asked) (string=? asked name))))
    (('syscall-number names ..1)
     (for-each (lambda (name) (constant 'syscall-number name)) names)
     (named 'syscall-number 'syscall (lambda (asked) (memq asked names))))
    (('require-all forms ..1)
     (let ((parts (map (lambda (f) (compile about f)) forms)))
       (lambda (question) (every (lambda (part) (part question)) parts))))
    (('require-any forms ..1)
     (let ((parts (map (lambda (f) (compile about f)) forms)))
       (lambda (question) (any (lambda (part) (part question)) parts))))
    (('require-not form) (let ((part (compile about form))) (lambda (question) (not (part question)))))
    (_ (wrong "unknown filter" form))))

(define (rule! decision arguments)
  (let*-values (((names rest) (span symbol? arguments))
                ((modifiers filters) (partition (lambda (f) (and (pair? f) (eq? (car f) 'with))) rest)))
    (if (null? names) (wrong "a rule without an operation"))
    (if (equal? names '(default))
        (begin
          (if (or base (pair? rest)) (wrong "the default is set twice or with a filter"))
          (set! base decision))
        (let ((about (append-map expand names))
              (errno (match modifiers
                       (() #f)
                       ((('with 'errno name))
                        (if (eq? decision 'allow) (wrong "an errno for what is allowed"))
                        (constant 'errno name))
                       (_ (wrong "unknown modifier" modifiers)))))
          (let*-values (((classes single) (partition (lambda (n) (string-suffix? "*" (symbol->string n))) names)))
            (set! rules (cons (list decision errno single (append-map expand classes)
                                    (map (lambda (f) (compile about f)) filters))
                              rules)))))))

(define (form! form)
  (match form
    (('version 1) #t)
    (('version other) (wrong "version" other))
    (((and decision (or 'allow 'deny)) arguments ...) (rule! decision arguments))
    (_ (wrong "unknown form" form))))

;; Reading takes the time, and profiles are much alike: each part between blank lines is read once, and must be whole.
(define (parts source)
  (let loop ((from 0) (all '()))
    (let ((end (string-contains source "\n\n" from)))
      (if end
          (loop (+ end 2) (cons (substring source from end) all))
          (reverse (cons (substring source from) all))))))
(define read-before (make-hash-table))
(define (forms-of part)
  (or (hash-ref read-before part)
      (let ((forms (call-with-input-string part
                     (lambda (port)
                       (let loop ((all '())) (let ((f (read port))) (if (eof-object? f) (reverse all) (loop (cons f all)))))))))
        (hash-set! read-before part forms)
        forms)))

;; What no parameter changes is compiled once too.
(define rules-before (make-hash-table))
(define (part! part)
  (let ((known (hash-ref rules-before part)))
    (if known
        (set! rules (append known rules))
        (let ((above rules))
          (for-each form! (forms-of part))
          (if (not (or (string-contains part "param") (string-contains part "default") (string-contains part "version")))
              (hash-set! rules-before part (list-head rules (- (length rules) (length above)))))))))

(define (load! source given)
  (set! base #f) (set! rules '()) (set! used '()) (set! parameters given)
  (if (not (= (length given) (length (delete-duplicates (map car given))))) (wrong "a parameter is set twice"))
  (let ((forms (forms-of (car (parts source)))))
    (if (not (equal? (and (pair? forms) (car forms)) '(version 1))) (wrong "it does not begin with (version 1)")))
  (for-each part! (parts source))
  (if (not (eq? base 'deny)) (wrong "no (deny default)"))
  (for-each (lambda (p) (if (not (member (car p) used)) (wrong "unused parameter" (car p)))) given))

;; Returns #t, or why the profile does not load.
(define (try-load source given)
  (catch #t
    (lambda () (load! source given) #t)
    (lambda (key . why)
      (set! base 'deny) (set! rules '())
      (string-map (lambda (c) (if (char=? c #\newline) #\space c))
                  (if (eq? key 'profile) (car why) (format #f "~a ~s" key why))))))

;; Returns (DECISION . ERRNO). Where it matters whether a rule that names the operation comes before all that mean it by a
;; `*`, which nobody has documented, the answer is that it depends.
(define (decide operation question)
  (if (not (memq operation operations)) (error "asked about an operation that the model does not know" operation))
  (define (last-of about?)
    (find (lambda (r) (and (about? r) (or (null? (fifth r)) (any (lambda (f) (f question)) (fifth r))))) rules))
  (define (named? r) (memq operation (third r)))
  (define (meant? r) (memq operation (fourth r)))
  (define (answer found) (if found (cons (first found) (second found)) (cons base #f)))
  (let ((in-order (answer (last-of (lambda (r) (or (named? r) (meant? r))))))
        (by-name (answer (or (last-of named?) (last-of meant?)))))
    (if (equal? in-order by-name) in-order (cons 'depends #f))))

(define (batch)
  (let loop ()
    (match (read)
      ((? eof-object?) (exit 0))
      (('load length given)
       (read-char)
       (let ((outcome (try-load (get-string-n (current-input-port) length) given)))
         (display (if (eq? outcome #t) "loaded" (string-append "failed " outcome)))))
      (('ask operation question)
       (match (decide operation question)
         ((decision . #f) (display decision))
         ((decision . errno) (display decision) (display " ") (display errno)))))
    (newline)
    (loop)))

(define (once file arguments)
  (let loop ((a arguments) (given '()) (tests '()))
    (match a
      (("-D" definition . rest)
       (let ((i (string-index definition #\=)))
         (loop rest (acons (substring definition 0 i) (substring definition (+ i 1)) given) tests)))
      ((operation path expect . rest) (loop rest given (cons (list operation path (string->symbol expect)) tests)))
      (()
       (let ((outcome (try-load (call-with-input-file file get-string-all #:encoding "UTF-8") (reverse given))))
         (if (not (eq? outcome #t))
             (begin (format (current-error-port) "~a: does not load: ~a\n" file outcome) (exit 2))))
       (let ((bad (count (lambda (t)
                           (let ((d (car (decide (string->symbol (first t)) (list (cons 'path (second t)))))))
                             (if (eq? d (third t))
                                 #f
                                 (begin (format #t "WRONG ~a ~a: ~a, expected ~a\n" (first t) (second t) d (third t)) #t))))
                         (reverse tests))))
         (format #t "~a passed, ~a failed\n" (- (length tests) bad) bad)
         (exit (if (zero? bad) 0 1)))))))

(match (command-line)
  ((_ "--batch") (batch))
  ((_ file . arguments) (once file arguments))
  (_ (format (current-error-port) "sbpl-check.scm PROFILE.sb [-D KEY=VALUE]... [OPERATION PATH EXPECT]... | --batch\n") (exit 2)))
